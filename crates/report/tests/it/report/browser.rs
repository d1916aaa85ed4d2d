//! A page in a real browser.

use std::fs;
use std::path::{Path, PathBuf};

use crate::report::sample;

/// A way to open the page, and the colours that its picture must then have.
struct Look {
    name: &'static str,
    size: &'static str,
    flags: &'static [&'static str],
    ground: [u8; 3],
    line: [u8; 3],
}

const LIGHT: Look = Look {
    name: "light",
    size: "1280,1500",
    flags: &[],
    ground: [0xff, 0xff, 0xff],
    line: [0x00, 0x5f, 0x9e],
};

const LOOKS: [Look; 3] = [
    LIGHT,
    Look {
        name: "dark",
        flags: &["--blink-settings=preferredColorScheme=0"],
        ground: [0x15, 0x18, 0x1d],
        line: [0x4d, 0xa3, 0xe6],
        ..LIGHT
    },
    Look {
        name: "narrow",
        size: "500,1900",
        ..LIGHT
    },
];

#[test]
fn a_page_shows_in_a_browser_without_a_complaint() {
    let Some(chromium) = test_support::require_command("chromium", "chromium") else {
        return;
    };
    let directory = Path::new(env!("CARGO_TARGET_TMPDIR"));
    let page = directory.join("report-page.html");
    fs::write(&page, sample::page().to_html()).unwrap();
    for look in &LOOKS {
        let screenshot = directory.join(format!("report-page-{}.png", look.name));
        let opened = test_support::open_page(&chromium, &page, &screenshot, look.size, look.flags);
        // Whatever the page's own policy keeps from loading is an error on the console, too.
        assert!(
            !opened.messages.contains("CONSOLE"),
            "{}: {opened:?}",
            look.name
        );
        assert_eq!(opened.requests, [""; 0], "{}", look.name);
        let pixels = Pixels::read(&screenshot);
        assert_eq!(
            pixels.width,
            look.size
                .split(',')
                .next()
                .unwrap()
                .parse::<usize>()
                .unwrap()
        );
        let share = |count: usize| count as f64 / pixels.colours.len() as f64;
        let (ground, line) = (
            share(pixels.count(look.ground)),
            share(pixels.count(look.line)),
        );
        assert!(
            (0.5..0.98).contains(&ground),
            "{}: {ground} of the page is ground",
            look.name
        );
        assert!(
            line > 0.0005,
            "{}: {line} of the page is the line of a plot",
            look.name
        );
    }
}

/// A decoded picture.
struct Pixels {
    width: usize,
    colours: Vec<[u8; 3]>,
}

impl Pixels {
    fn read(path: &PathBuf) -> Pixels {
        let file = std::io::BufReader::new(fs::File::open(path).unwrap());
        let mut reader = png::Decoder::new(file).read_info().unwrap();
        let mut bytes = vec![0; reader.output_buffer_size().unwrap()];
        let frame = reader.next_frame(&mut bytes).unwrap();
        let channels = frame.color_type.samples();
        let colours = bytes[..frame.buffer_size()]
            .chunks_exact(channels)
            .map(|pixel| [pixel[0], pixel[1], pixel[2]]);
        Pixels {
            width: frame.width as usize,
            colours: colours.collect(),
        }
    }

    fn count(&self, colour: [u8; 3]) -> usize {
        self.colours
            .iter()
            .filter(|&&pixel| pixel == colour)
            .count()
    }
}
