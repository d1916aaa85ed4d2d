//! The media of SIPp's scenarios: what `<exec>` plays.

use std::sync::Arc;

use super::ScriptReader;
use super::document::Element;
use crate::media::Recording;
use crate::script::{Action, MediaAction};

/// What is known, and not done.
const NOT_PLAYED: [&str; 3] = ["play_pcap_video", "play_pcap_image", "play_pcap_text"];

/// What SIPp's patterns are made of.
const PATTERNS: [u8; 6] = [0xaa, 0xbb, 0xcc, 0xdd, 0xee, 0xff];
/// Whole packets of each codec; they are played over and over.
const PATTERN_OCTETS: usize = 800;

impl ScriptReader {
    /// The media of an `<exec>`. Returns whether it is about media.
    pub(super) fn media(&mut self, element: &Element<'_>, actions: &mut Vec<Action>) -> bool {
        if let Some(name) = element.attribute("play_pcap_audio") {
            let read = self.companions.read(name).and_then(|octets| {
                Recording::pcap(&octets).map_err(|error| format!("the file {name:?}: {error}"))
            });
            play(element, read, actions);
        } else if let Some(keys) = element.attribute("play_dtmf") {
            play(element, Recording::keys(keys), actions);
        } else if let Some(text) = element.attribute("rtp_stream") {
            self.rtp_stream(element, text, actions);
        } else if let Some(text) = element.attribute("rtp_echo") {
            actions.push(echo(text));
        } else if element.attribute("start_rtp_echo").is_some() {
            actions.push(Action::Media(MediaAction::Echo(true)));
        } else if element.attribute("stop_rtp_echo").is_some() {
            actions.push(Action::Media(MediaAction::Echo(false)));
        } else if let Some(name) = NOT_PLAYED
            .into_iter()
            .find(|name| element.attribute(name).is_some())
        {
            element.remark(format_args!("{name} is not played: calls have audio alone"));
        } else {
            return false;
        }
        true
    }

    /// `<rtp_echo value="1"/>`.
    pub(super) fn rtp_echo(&mut self, element: &Element<'_>, actions: &mut Vec<Action>) {
        match element.attribute("value") {
            Some(value) => actions.push(echo(value)),
            None => {
                element.ignore(&["variable"]);
                element.remark("<rtp_echo> needs value=\"1\" or \"0\": nothing is sent back");
            }
        }
    }

    /// `FILE[,TIMES[,PAYLOAD-TYPE[,…]]]`, `apattern[,PATTERN[,PAYLOAD-TYPE[,…]]]`, `pause`, `resume`.
    fn rtp_stream(&mut self, element: &Element<'_>, text: &str, actions: &mut Vec<Action>) {
        let mut words = text.split(',').map(str::trim);
        let name = words.next().unwrap_or_default();
        match name {
            "pause" | "pauseapattern" => actions.push(Action::Media(MediaAction::Pause)),
            "resume" | "resumeapattern" => actions.push(Action::Media(MediaAction::Resume)),
            "vpattern" | "pausevpattern" | "resumevpattern" => {
                element.remark("patterns of video are not played: calls have audio alone");
            }
            "apattern" => {
                let pattern = words.next().filter(|word| !word.is_empty()).unwrap_or("1");
                let payload_type = words.next().filter(|word| !word.is_empty()).unwrap_or("0");
                let octet = pattern.parse().ok().and_then(|number: usize| {
                    let index = number.checked_sub(1)?;
                    PATTERNS.get(index).copied()
                });
                let (Some(octet), Ok(payload_type)) = (octet, payload_type.parse()) else {
                    element.refuse(
                        "rtp_stream",
                        "apattern,PATTERN,PAYLOAD-TYPE with a pattern from 1 to 6",
                    );
                    return;
                };
                let sound = [octet; PATTERN_OCTETS];
                play(
                    element,
                    Recording::sound(&sound, payload_type, None),
                    actions,
                );
            }
            _ => {
                let times = words.next().filter(|word| !word.is_empty()).unwrap_or("1");
                let payload_type = words.next().filter(|word| !word.is_empty()).unwrap_or("0");
                let (Ok(times), Ok(payload_type)) = (times.parse::<i64>(), payload_type.parse())
                else {
                    element.refuse("rtp_stream", "FILE,TIMES,PAYLOAD-TYPE");
                    return;
                };
                // -1 is for ever.
                let times = u32::try_from(times).ok();
                let read = self.companions.read(name).and_then(|octets| {
                    Recording::sound(&octets, payload_type, times)
                        .map_err(|error| format!("the file {name:?}: {error}"))
                });
                play(element, read, actions);
            }
        }
    }
}

fn play(element: &Element<'_>, recording: Result<Recording, String>, actions: &mut Vec<Action>) {
    match recording {
        Ok(recording) => actions.push(Action::Media(MediaAction::Play(Arc::new(recording)))),
        Err(error) => element.problem(error),
    }
}

/// `1`, `startaudio`, `updateaudio` (it goes on) and the like; all else ends it.
fn echo(text: &str) -> Action {
    let is_named = ["start", "update"]
        .iter()
        .any(|word| text.starts_with(word));
    let begins = is_named || text.trim().parse().is_ok_and(|number: f64| number != 0.0);
    Action::Media(MediaAction::Echo(begins))
}
