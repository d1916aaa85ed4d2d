//! How much is done in a second for peers that have not proved their addresses: INITs answered and
//! signatures of cookies checked. An attacker can ask for any amount of both.

use std::time::{Duration, Instant};

use crate::EndpointConfig;

/// What was done in the present second.
#[derive(Debug, Default)]
pub(crate) struct RateLimits {
    inits: RateLimit,
    cookie_echoes: RateLimit,
}

#[derive(Debug, Default)]
struct RateLimit {
    began: Option<Instant>,
    count: u32,
}

impl RateLimits {
    /// Whether one more INIT is to be answered; if so, it counts.
    pub(crate) fn allow_init(&mut self, now: Instant, config: &EndpointConfig) -> bool {
        self.inits.allow(now, config.max_inits_per_second)
    }

    /// Whether one more COOKIE ECHO is to be looked at; if so, it counts.
    pub(crate) fn allow_cookie_echo(&mut self, now: Instant, config: &EndpointConfig) -> bool {
        self.cookie_echoes
            .allow(now, config.max_cookie_echoes_per_second)
    }
}

impl RateLimit {
    fn allow(&mut self, now: Instant, max: u32) -> bool {
        let is_over = self
            .began
            .is_none_or(|began| now.saturating_duration_since(began) >= Duration::from_secs(1));
        if is_over {
            *self = RateLimit {
                began: Some(now),
                count: 0,
            };
        }
        let allowed = self.count < max;
        self.count += u32::from(allowed);
        allowed
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn allows_so_many_in_each_second() {
        let config = EndpointConfig::default()
            .max_inits_per_second(2)
            .max_cookie_echoes_per_second(1);
        let mut rates = RateLimits::default();
        let now = Instant::now();
        for second in 0..3 {
            let now = now + Duration::from_secs(second);
            let later = now + Duration::from_millis(999);
            assert!(rates.allow_init(now, &config));
            assert!(rates.allow_cookie_echo(now, &config));
            assert!(rates.allow_init(later, &config));
            assert!(!rates.allow_init(later, &config));
            assert!(!rates.allow_cookie_echo(later, &config));
        }
    }
}
