//! The colours of plots, on light ground and on dark.
//!
//! A plot is drawn in the light colours; a style sheet exchanges each for its dark counterpart where the
//! reader prefers dark. So the same SVG shows well where no style sheet is heard, as in a picture viewer.

use plotters::style::RGBColor;

use super::Colour;

/// A colour on light ground and its counterpart on dark.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Shade {
    pub(super) light: RGBColor,
    pub(super) dark: RGBColor,
}

/// What a plot is drawn on, as the page itself.
pub(super) const GROUND: Shade = Shade {
    light: RGBColor(0xff, 0xff, 0xff),
    dark: RGBColor(0x15, 0x18, 0x1d),
};

/// Text.
pub(super) const INK: Shade = Shade {
    light: RGBColor(0x1f, 0x23, 0x28),
    dark: RGBColor(0xe6, 0xe9, 0xed),
};

/// Axes and the numbers beside them.
pub(super) const AXIS: Shade = Shade {
    light: RGBColor(0x57, 0x60, 0x6a),
    dark: RGBColor(0xa6, 0xae, 0xb8),
};

/// Grid lines.
pub(super) const GRID: Shade = Shade {
    light: RGBColor(0xe1, 0xe4, 0xe8),
    dark: RGBColor(0x2c, 0x32, 0x3a),
};

impl Colour {
    pub(super) fn shade(self) -> Shade {
        let (light, dark) = match self {
            Colour::Blue => (RGBColor(0x00, 0x5f, 0x9e), RGBColor(0x4d, 0xa3, 0xe6)),
            Colour::Orange => (RGBColor(0xd5, 0x5e, 0x00), RGBColor(0xf5, 0x8b, 0x45)),
            Colour::Green => (RGBColor(0x00, 0x8a, 0x64), RGBColor(0x2f, 0xc0, 0x93)),
            Colour::Purple => (RGBColor(0xb0, 0x55, 0x8a), RGBColor(0xe0, 0x93, 0xc1)),
            Colour::Sky => (RGBColor(0x2b, 0x93, 0xd1), RGBColor(0x93, 0xd3, 0xf7)),
            Colour::Grey => (RGBColor(0x6b, 0x73, 0x7c), RGBColor(0x9a, 0xa2, 0xac)),
        };
        Shade { light, dark }
    }
}

/// The rules that turn a plot dark on screens; paper stays white.
pub(crate) fn style_sheet() -> String {
    let mut rules = String::new();
    for shade in [GROUND, INK, AXIS, GRID]
        .into_iter()
        .chain(Colour::ALL.map(Colour::shade))
    {
        let (light, dark) = (hexadecimal(shade.light), hexadecimal(shade.dark));
        for property in ["fill", "stroke"] {
            rules.push_str(&format!(
                ".plot [{property}=\"{light}\"]{{{property}:{dark}}}\n"
            ));
        }
    }
    format!("@media screen and (prefers-color-scheme: dark){{\n{rules}}}\n")
}

/// The colour of lines of this kind, as the style sheet knows it: for drawings beside plots.
pub(crate) fn hexadecimal_of(colour: Colour) -> String {
    hexadecimal(colour.shade().light)
}

/// The colour of text.
pub(crate) fn hexadecimal_ink() -> String {
    hexadecimal(INK.light)
}

/// The colour of fine lines.
pub(crate) fn hexadecimal_rule() -> String {
    hexadecimal(AXIS.light)
}

/// The colour of the ground.
pub(crate) fn hexadecimal_ground() -> String {
    hexadecimal(GROUND.light)
}

/// The colour as the SVG backend writes it, which the style sheet must match to the letter.
fn hexadecimal(RGBColor(red, green, blue): RGBColor) -> String {
    format!("#{red:02X}{green:02X}{blue:02X}")
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Relative luminance and contrast by WCAG 2.2.
    fn luminance(RGBColor(red, green, blue): RGBColor) -> f64 {
        let linear = |channel: u8| match f64::from(channel) / 255.0 {
            low if low <= 0.04045 => low / 12.92,
            high => ((high + 0.055) / 1.055).powf(2.4),
        };
        0.2126 * linear(red) + 0.7152 * linear(green) + 0.0722 * linear(blue)
    }

    fn contrast(one: RGBColor, other: RGBColor) -> f64 {
        let (one, other) = (luminance(one), luminance(other));
        (one.max(other) + 0.05) / (one.min(other) + 0.05)
    }

    #[test]
    fn lines_stand_out_on_both_grounds() {
        for colour in Colour::ALL {
            let shade = colour.shade();
            assert!(
                contrast(shade.light, GROUND.light) >= 3.0,
                "{colour:?} on light ground"
            );
            assert!(
                contrast(shade.dark, GROUND.dark) >= 3.0,
                "{colour:?} on dark ground"
            );
        }
    }

    #[test]
    fn text_is_readable_on_both_grounds() {
        for text in [INK, AXIS] {
            assert!(contrast(text.light, GROUND.light) >= 4.5);
            assert!(contrast(text.dark, GROUND.dark) >= 4.5);
        }
    }

    #[test]
    fn no_two_colours_are_exchanged_for_one() {
        let shades: Vec<Shade> = [GROUND, INK, AXIS, GRID]
            .into_iter()
            .chain(Colour::ALL.map(Colour::shade))
            .collect();
        for (index, one) in shades.iter().enumerate() {
            assert!(
                shades[index + 1..]
                    .iter()
                    .all(|other| one.light != other.light && one.dark != other.dark)
            );
        }
    }
}
