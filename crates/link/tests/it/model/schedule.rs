//! Changes over time.

use crate::model::support::{arrivals, link, milliseconds};
use link::{DropCause, LinkConfig, LinkWords, PeriodWords, Schedule};
use std::time::{Duration, Instant};

fn seconds(seconds: u64) -> Duration {
    Duration::from_secs(seconds)
}

#[test]
fn a_link_is_down_and_otherwise_when_its_schedule_says_so() {
    let base = LinkConfig {
        delay: milliseconds(10),
        ..LinkConfig::default()
    };
    let lossy = LinkConfig {
        loss: 1.0.into(),
        ..base.clone()
    };
    let slow = LinkConfig {
        delay: milliseconds(500),
        ..LinkConfig::default()
    };
    let schedule = Schedule::new()
        .down(seconds(10), seconds(20))
        .config(seconds(15), seconds(40), lossy)
        .config(seconds(30), None, slow);
    let start = Instant::now();
    let mut link = link(&base, 1).with_schedule(&schedule, start);
    let mut at = |time: f64| {
        let now = start + Duration::from_secs_f64(time);
        let verdict = link.offer(now, 100);
        let delay = arrivals(verdict).first().map(|&at| (at - now).as_millis());
        delay.ok_or(verdict.drop_cause())
    };
    assert_eq!(at(0.0), Ok(10));
    assert_eq!(at(9.999), Ok(10));
    assert_eq!(at(10.0), Err(Some(DropCause::Down)));
    assert_eq!(at(19.999), Err(Some(DropCause::Down)));
    assert_eq!(at(20.0), Err(Some(DropCause::Lost)));
    // The later in the list counts.
    assert_eq!(at(30.0), Ok(500));
    assert_eq!(at(100.0), Ok(500));
    assert_eq!(link.next_change(), None);
}

#[test]
fn the_next_change_is_known_and_can_be_made_without_packets() {
    let schedule = Schedule::new().down(seconds(1), seconds(2));
    let start = Instant::now();
    let mut link = link(&LinkConfig::default(), 1).with_schedule(&schedule, start);
    assert_eq!(link.next_change(), Some(start + seconds(1)));
    assert!(link.is_up());
    link.advance(start + milliseconds(1500));
    assert!(!link.is_up());
    assert_eq!(link.next_change(), Some(start + seconds(2)));
    // What is said by hand holds until the schedule says something else.
    link.set_up(true);
    assert!(!link.offer(start + milliseconds(1600), 1).is_dropped());
    link.set_config(LinkConfig {
        loss: 1.0.into(),
        ..LinkConfig::default()
    });
    assert!(link.offer(start + milliseconds(1700), 1).is_dropped());
    assert!(!link.offer(start + milliseconds(2000), 1).is_dropped());
}

#[test]
fn changes_missed_at_once_leave_the_last() {
    let schedule = Schedule::new()
        .down(seconds(1), seconds(2))
        .down(seconds(3), seconds(4));
    let start = Instant::now();
    for (time, is_up) in [(1.0, false), (2.5, true), (3.0, false), (9.0, true)] {
        let mut link = link(&LinkConfig::default(), 1).with_schedule(&schedule, start);
        link.advance(start + Duration::from_secs_f64(time));
        assert_eq!(link.is_up(), is_up, "{time}");
    }
}

#[test]
fn schedules_are_read_from_words() {
    let text = r#"
        [[schedule]]
        from = "10s"
        until = "20s"
        down = true

        [[schedule]]
        from = "30s"
        until = "40s"
        loss = "10%"
        delay = "1ms"
    "#;
    #[derive(serde::Deserialize, serde::Serialize)]
    struct File {
        schedule: Vec<PeriodWords>,
    }
    let file: File = toml::from_str(text).unwrap();
    let base = LinkConfig {
        delay: milliseconds(50),
        duplicate: 0.1.into(),
        ..LinkConfig::default()
    };
    let mut no_files = |name: &str| Err(name.to_owned());
    let schedule = Schedule::read(&file.schedule, &base, &mut no_files).unwrap();
    let expected = Schedule::new().down(seconds(10), seconds(20)).config(
        seconds(30),
        seconds(40),
        LinkConfig {
            loss: 0.1.into(),
            delay: milliseconds(1),
            ..base.clone()
        },
    );
    assert_eq!(schedule, expected);

    let json = serde_json::to_string(&file.schedule).unwrap();
    let again: Vec<PeriodWords> = serde_json::from_str(&json).unwrap();
    assert_eq!(again, file.schedule);

    let unknown = r#"{"from": "1s", "dely": "5ms"}"#;
    assert!(serde_json::from_str::<PeriodWords>(unknown).is_err());
    let wrong = [PeriodWords {
        from: "5s".to_owned(),
        until: Some("5s".to_owned()),
        down: true,
        words: LinkWords::default(),
    }];
    let wrong = Schedule::read(&wrong, &base, &mut no_files).unwrap_err();
    assert!(wrong.to_string().contains("ends before"), "{wrong}");
}
