//! Lines with known figures.

use link::{LinkConfig, LinkWords};

/// A line with known figures.
#[derive(Debug, Clone, PartialEq)]
pub struct Preset {
    /// Its name.
    pub name: String,
    /// Where the figures come from.
    pub about: String,
    /// What it does to packets.
    pub config: LinkConfig,
}

/// The monthly median of packet loss between regions in per cent (April 1999), Pang 2003, table 5.4: a row for
/// the place that was monitored from, a column for the one that was monitored.
const LOSS_BETWEEN_REGIONS: &str = include_str!("../published/loss_between_regions.csv");

/// The preset of that name.
///
/// # Errors
///
/// There is none; the text tells where to look.
pub fn preset(name: &str) -> Result<Preset, String> {
    presets()
        .into_iter()
        .find(|preset| preset.name == name)
        .ok_or_else(|| {
            let name: String = name.chars().take(60).collect();
            format!("there is no preset \"{name}\": tandem net presets lists them")
        })
}

/// All presets.
pub fn presets() -> Vec<Preset> {
    let mut presets = vec![
        wifi("wifi-70", "70 %", WIFI_70),
        wifi("wifi-50", "50 %", WIFI_50),
        wifi("wifi-25", "25 %", WIFI_25),
        Preset {
            name: "satellite".to_owned(),
            about: "A geostationary satellite, in each direction: up and down take 279 ms at the edge of what it \
                    sees (RFC 2488 section 2); a bit error rate of 10^-7 loses 0.12 % of packets of 1,500 bytes; \
                    10 Mbit/s and a queue of one round trip"
                .to_owned(),
            config: config(&[
                ("delay", "279ms"),
                ("loss", "0.12%"),
                ("bandwidth", "10Mbit/s"),
                ("queue", "700kB"),
            ]),
        },
        Preset {
            name: "lte".to_owned(),
            about: "A mobile phone's LTE, in each direction, as it commonly is: 20 Mbit/s, round trips of 50 ms \
                    that vary, next to no loss (the radio link repeats), and a long queue"
                .to_owned(),
            config: config(&[
                ("delay", "25ms"),
                ("jitter", "5ms normal 25%"),
                ("loss", "0.01%"),
                ("bandwidth", "20Mbit/s"),
                ("queue", "1MB"),
            ]),
        },
    ];
    presets.extend(regions());
    presets
}

/// Words for a line of Wi-Fi. The kernel's TCP (Reno, a window of 256 KBytes, 10 s, three trials) gets 8.01, 3.96 and
/// 2.29 Mbit/s through them; the published means are 7.98 to 8.00, 3.95 to 3.99 and 2.29 to 2.36 Mbit/s.
type Wifi = [(&'static str, &'static str); 5];

const WIFI_70: Wifi = [
    ("delay", "2ms"),
    ("jitter", "1ms"),
    ("loss", "0.05%"),
    ("bandwidth", "8.3Mbit/s"),
    ("queue", "100kB"),
];
const WIFI_50: Wifi = [
    ("delay", "3ms"),
    ("jitter", "2ms"),
    ("loss", "0.5%"),
    ("bandwidth", "4.13Mbit/s"),
    ("queue", "100kB"),
];
const WIFI_25: Wifi = [
    ("delay", "5ms"),
    ("jitter", "4ms"),
    ("loss", "2%"),
    ("bandwidth", "2.5Mbit/s"),
    ("queue", "100kB"),
];

fn wifi(name: &str, signal: &str, words: Wifi) -> Preset {
    Preset {
        name: name.to_owned(),
        about: format!(
            "Wi-Fi at {signal} signal strength, in each direction: rate and loss are chosen so that TCP gets what \
             SCTP thesis 2011, tables 1.1 to 1.3, measured"
        ),
        config: config(&words),
    }
}

/// The losses between regions.
fn regions() -> impl Iterator<Item = Preset> {
    let mut lines = LOSS_BETWEEN_REGIONS.lines();
    let header: Vec<&str> = lines.next().unwrap_or_default().split(',').collect();
    lines.flat_map(move |line| {
        let mut fields = line.split(',');
        let from = fields.next().unwrap_or_default();
        let cells = header.iter().skip(1).zip(fields);
        let cells: Vec<Preset> = cells
            .filter(|(_, loss)| !loss.is_empty())
            .map(|(to, loss)| Preset {
                name: format!("{}-to-{}", kebab(from), kebab(to)),
                about: format!(
                    "The median packet loss from {from} to {to} in April 1999 (Pang 2003, table 5.4)"
                ),
                config: config(&[("loss", &format!("{loss}%"))]),
            })
            .collect();
        cells
    })
}

fn kebab(name: &str) -> String {
    name.to_ascii_lowercase().replace(' ', "-")
}

/// The configuration that these words stand for: they are ours, and a test reads all of them.
fn config(words: &[(&str, &str)]) -> LinkConfig {
    let words = words
        .iter()
        .map(|(name, value)| ((*name).to_owned(), (*value).into()))
        .collect();
    serde_json::from_value(serde_json::Value::Object(words))
        .ok()
        .and_then(|words: LinkWords| words.read().ok())
        .unwrap_or_default()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_preset_says_something_and_has_a_name_of_its_own() {
        let presets = presets();
        for (index, preset) in presets.iter().enumerate() {
            assert_ne!(preset.config, LinkConfig::default(), "{}", preset.name);
            let earlier = &presets[..index];
            assert!(earlier.iter().all(|other| other.name != preset.name));
        }
    }

    #[test]
    fn losses_are_the_published_ones() {
        let loss = |name| preset(name).unwrap().words().words["loss"].clone();
        assert_eq!(loss("canada-to-united-kingdom"), "12.75%");
        assert_eq!(loss("united-kingdom-to-canada"), "2.37%");
        assert_eq!(loss("hungary-to-world"), "7.69%");
        assert!(preset("canada-to-canada").is_err());
        assert_eq!(regions().count(), 7 * 8 - 7);
    }
}
