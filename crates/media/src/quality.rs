//! How a call sounds, estimated from losses and delay: the E-model (ITU-T G.107) with the defaults of a handset, as RTCP
//! XR reports it (RFC 3611 section 4.7).

use std::time::Duration;

use crate::codec::Codec;

/// What is known of the sound that comes in.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Impairments {
    /// The codec.
    pub codec: Codec,
    /// From mouth to ear.
    pub delay: Duration,
    /// The part of the packets that was lost or came too late, from 0 to 1.
    pub lost: f64,
    /// How much longer losses are in a row than if each packet were lost on its own: 1 for losses at random.
    pub burst_ratio: f64,
}

/// R with nothing impaired but what cannot be helped (G.107 table 2).
const UNIMPAIRED: f64 = 93.2;

impl Impairments {
    /// The rating R: 93 at best, 50 and less when nobody would use it.
    pub fn r_factor(&self) -> f64 {
        let milliseconds = self.delay.as_secs_f64() * 1000.0;
        // Cole and Rosenbluth's fit of G.107's delay impairment.
        let delay = 0.024 * milliseconds + 0.11 * (milliseconds - 177.3).max(0.0);
        let (equipment, robustness) = equipment(self.codec);
        let percent = self.lost.clamp(0.0, 1.0) * 100.0;
        let burst = self.burst_ratio.max(1.0);
        let loss = (95.0 - equipment) * percent / (percent / burst + robustness);
        (UNIMPAIRED - delay - equipment - loss).clamp(0.0, 100.0)
    }

    /// The mean opinion score that goes with it: 4.4 at best, 1 at worst (G.107 annex B).
    pub fn mos(&self) -> f64 {
        let r = self.r_factor();
        if r <= 0.0 {
            1.0
        } else if r >= 100.0 {
            4.5
        } else {
            (1.0 + 0.035 * r + r * (r - 60.0) * (100.0 - r) * 7e-6).max(1.0)
        }
    }
}

/// The equipment impairment factor Ie of a codec, and its robustness to losses Bpl with concealment (ITU-T G.113 appendix
/// I).
fn equipment(codec: Codec) -> (f64, f64) {
    match codec {
        Codec::Pcmu | Codec::Pcma => (0.0, 25.1),
        Codec::G722 => (0.0, 20.0),
        Codec::Opus => (0.0, 30.0),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn call(delay: u64, lost: f64) -> Impairments {
        Impairments {
            codec: Codec::Pcma,
            delay: Duration::from_millis(delay),
            lost,
            burst_ratio: 1.0,
        }
    }

    #[test]
    fn a_clean_call_is_good_and_losses_and_delay_make_it_worse() {
        assert!((4.35..4.45).contains(&call(20, 0.0).mos()));
        let scores = [call(20, 0.0), call(20, 0.02), call(20, 0.1), call(20, 0.5)].map(|c| c.mos());
        assert!(scores.is_sorted_by(|one, other| one > other), "{scores:?}");
        assert!(call(400, 0.0).mos() < call(100, 0.0).mos() - 0.5);
        assert!((1.0..1.5).contains(&call(5_000, 1.0).mos()));
    }

    #[test]
    fn losses_of_five_percent_cost_what_g_107_says() {
        // 95 · 5 / (5 + 25.1) = 15.8
        let rating = call(0, 0.0).r_factor() - call(0, 0.05).r_factor();
        assert!((15.7..15.9).contains(&rating), "{rating}");
    }
}
