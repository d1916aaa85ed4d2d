//! Links in words.

use crate::model::support::milliseconds;
use link::{
    Bottleneck, Chance, CoDel, Corruption, Distribution, Drd, FourStates, GilbertElliott, Jitter,
    LinkConfig, LinkWords, Loss, Management, PacketNumbers, Pattern, Periodic, Rate, Red,
    Reordering, Table, Trace, Unit,
};
use proptest::prelude::*;
use std::time::Duration;

const TABLE: &str = "-8192 0 8192";
const TRACE: &str = "1\n2\n";

fn files(name: &str) -> Result<String, String> {
    match name {
        "a.dist" => Ok(TABLE.to_owned()),
        "a.trace" => Ok(TRACE.to_owned()),
        _ => Err(format!("no file {name}")),
    }
}

fn read(toml: &str) -> Result<LinkConfig, String> {
    let words: LinkWords = toml::from_str(toml).map_err(|error| error.to_string())?;
    words
        .over(&LinkConfig::default(), &mut files)
        .map_err(|error| error.to_string())
}

#[test]
fn all_parts_can_be_said() {
    let config = read(
        r#"
        delay = "50ms"
        jitter = "5ms pareto-normal 25% reorder"
        loss = "gilbert-elliott 1% 10% 70% 0.1%"
        duplicate = "1% 20%"
        corrupt = "0.1% 5% bits 3"
        reorder = "25% 50% gap 5"
        bandwidth = "100kB/s overhead 28B burst 4kB"
        queue = "100p 32kB red 5p 15p 2% gentle ecn"
        "#,
    )
    .unwrap();
    let expected = LinkConfig {
        delay: milliseconds(50),
        jitter: Jitter {
            amount: milliseconds(5),
            distribution: Distribution::ParetoNormal,
            correlation: 0.25,
            reorders: true,
        },
        loss: Loss::GilbertElliott(GilbertElliott {
            to_bad: 0.01,
            to_good: 0.1,
            loss_in_bad: 0.7,
            loss_in_good: 0.001,
        }),
        duplicate: Chance {
            probability: 0.01,
            correlation: 0.2,
        },
        corrupt: Corruption {
            chance: Chance {
                probability: 0.001,
                correlation: 0.05,
            },
            bits: 3,
        },
        reorder: Reordering {
            chance: Chance {
                probability: 0.25,
                correlation: 0.5,
            },
            gap: 5,
        },
        bottleneck: Some(Bottleneck {
            overhead_bytes: 28,
            burst_bytes: 4000,
            queue_packets: 100,
            queue_bytes: 32_000,
            management: Management::Red(Red {
                gentle: true,
                ..Red::new(5, 15, Unit::Packets)
            }),
            ecn: true,
            ..Bottleneck::new(800_000)
        }),
    };
    assert_eq!(config, expected);
}

#[test]
fn losses_can_be_said_in_all_ways() {
    let loss = |text: &str| text.parse::<Loss>().unwrap();
    assert_eq!(loss("10%"), 0.1.into());
    assert_eq!(loss("10"), 0.1.into(), "as NIST Net has it");
    assert_eq!(loss("none"), Loss::None);
    let Loss::GilbertElliott(simple) = loss("gemodel 1%") else {
        panic!("another model");
    };
    assert_eq!(
        (simple.to_good, simple.loss_in_bad, simple.loss_in_good),
        (0.99, 1.0, 0.0)
    );
    assert_eq!(
        loss("bursts 5% 4"),
        Loss::GilbertElliott(GilbertElliott::bursts(0.05, 4.0))
    );
    assert_eq!(
        loss("markov 5% 20% 30% 40% 3%"),
        Loss::Markov(FourStates {
            p13: 0.05,
            p31: 0.2,
            p32: 0.3,
            p23: 0.4,
            p14: 0.03
        })
    );
    assert_eq!(
        loss("packets 3 7 10-20"),
        Loss::Packets(PacketNumbers::new([3..=3, 7..=7, 10..=20]))
    );
    assert_eq!(
        loss("pattern 0010"),
        Loss::Pattern(Pattern::new(vec![false, false, true, false]))
    );
    assert_eq!(loss("every 100"), Loss::Periodic(Periodic::every(100)));
    let from = Periodic {
        every: 100,
        first: 7,
    };
    assert_eq!(loss("every 100 from 7"), Loss::Periodic(from));
}

#[test]
fn files_are_read_when_they_can_be() {
    let config = read("jitter = \"5ms table a.dist 10%\"\nbandwidth = \"trace a.trace\"").unwrap();
    let table = Table::parse("a.dist", TABLE).unwrap();
    assert_eq!(config.jitter.distribution, Distribution::Table(table));
    let trace = Trace::parse("a.trace", TRACE).unwrap();
    assert_eq!(
        config.bottleneck.map(|bottleneck| bottleneck.rate),
        Some(Rate::Trace(trace))
    );
    assert!(read("jitter = \"5ms table b.dist\"").is_err());
    // From JSON and such, where there are no files.
    let wrong = serde_json::from_str::<LinkConfig>(r#"{"bandwidth": "trace a.trace"}"#);
    assert!(wrong.unwrap_err().to_string().contains("cannot be read"));
}

#[test]
fn words_change_what_they_name_and_nothing_else() {
    let base = read("delay = \"50ms\"\nbandwidth = \"1Mbit/s\"\nqueue = \"10p\"").unwrap();
    let over = |toml: &str| {
        let words: LinkWords = toml::from_str(toml).unwrap();
        words.over(&base, &mut files).unwrap()
    };
    assert_eq!(over(""), base);
    let faster = over("bandwidth = \"2Mbit/s\"");
    assert_eq!(faster.bottleneck.unwrap().queue_packets, 10);
    let longer = over("queue = \"32kB\"").bottleneck.unwrap();
    assert_eq!(longer.rate, Rate::Constant(1_000_000));
    assert_eq!(longer.queue_bytes, 32_000);
    assert_eq!(over("bandwidth = \"none\"").bottleneck, None);
    assert_eq!(over("drop = \"10%\"").loss, 0.1.into());
}

#[test]
fn what_is_wrong_is_said() {
    for (toml, why) in [
        ("delay = \"50\"", "delay: \"50\" is not a time"),
        (
            "jitter = \"5ms gauss\"",
            "jitter: \"gauss\" has no meaning here",
        ),
        ("loss = \"110%\"", "loss: \"110%\" is not a percentage"),
        ("loss = \"packets\"", "loss: numbers of packets"),
        (
            "loss = \"packets 5-3\"",
            "loss: \"5-3\" is not a number or range",
        ),
        ("loss = \"pattern 012\"", "not a pattern of 0 and 1"),
        ("loss = \"every 0\"", "not a number above 0"),
        ("loss = \"bursts 100% 2\"", "leaves nothing between"),
        (
            "duplicate = \"\"",
            "duplicate: a probability such as 10% is missing",
        ),
        (
            "corrupt = \"1% bits 65\"",
            "corrupt: \"65\" is not a number of bits",
        ),
        ("reorder = \"\"", "reorder: nothing is said"),
        ("bandwidth = \"fast\"", "bandwidth: \"fast\" is not a rate"),
        ("queue = \"32kB\"", "queue: a queue needs a bandwidth"),
        ("speed = \"1Mbit/s\"", "unknown field"),
    ] {
        let wrong = read(toml).unwrap_err();
        assert!(wrong.contains(why), "{toml}: {wrong}");
    }
    for (queue, why) in [
        ("fast", "is not a bound such as 50p"),
        ("10p 20p", "two bounds of one unit"),
        ("red 5p 15kB", "different units"),
        ("red 15p 5p", "not below the maximum"),
        ("codel target 5", "not a time"),
        ("10p ecn please", "has no meaning here"),
    ] {
        let toml = format!("bandwidth = \"1Mbit/s\"\nqueue = \"{queue}\"");
        let wrong = read(&toml).unwrap_err();
        assert!(wrong.contains(why), "{queue}: {wrong}");
    }
}

#[test]
fn a_perfect_link_needs_no_words() {
    let words = LinkWords::from(&LinkConfig::default());
    assert_eq!(words, LinkWords::default());
    assert_eq!(serde_json::to_string(&words).unwrap(), "{}");
}

/// Probabilities as people write them, and any.
fn probability() -> impl Strategy<Value = f64> {
    prop_oneof![
        (0..=1000_u32).prop_map(|thousandth| f64::from(thousandth) / 1000.0),
        0.0..=1.0_f64,
    ]
}

fn chance() -> impl Strategy<Value = Chance> {
    (probability(), probability()).prop_map(|(probability, correlation)| Chance {
        probability,
        correlation,
    })
}

fn loss() -> impl Strategy<Value = Loss> {
    let five = || {
        (
            probability(),
            probability(),
            probability(),
            probability(),
            probability(),
        )
    };
    prop_oneof![
        Just(Loss::None),
        chance().prop_map(Loss::Random),
        five().prop_map(|(to_bad, to_good, loss_in_bad, loss_in_good, _)| {
            Loss::GilbertElliott(GilbertElliott {
                to_bad,
                to_good,
                loss_in_bad,
                loss_in_good,
            })
        }),
        five().prop_map(|(p13, p31, p32, p23, p14)| {
            Loss::Markov(FourStates {
                p13,
                p31,
                p32,
                p23,
                p14,
            })
        }),
        prop::collection::vec((1..1000_u64, 0..50_u64), 1..9).prop_map(|ranges| {
            Loss::Packets(PacketNumbers::new(
                ranges.into_iter().map(|(first, more)| first..=first + more),
            ))
        }),
        prop::collection::vec(any::<bool>(), 1..20)
            .prop_map(|lost| Loss::Pattern(Pattern::new(lost))),
        (1_u64.., 1_u64..).prop_map(|(every, first)| Loss::Periodic(Periodic { every, first })),
    ]
}

fn management() -> impl Strategy<Value = Management> {
    let unit = prop_oneof![Just(Unit::Packets), Just(Unit::Bytes)];
    let range = (0..1000_u64, 1..1000_u64, unit);
    let red = (
        range.clone(),
        probability(),
        probability(),
        1_u32..,
        any::<bool>(),
    );
    let codel = (any::<u64>(), any::<u64>(), any::<u32>());
    prop_oneof![
        Just(Management::DropTail),
        red.prop_map(
            |((minimum, more, unit), probability, weight, mean_bytes, gentle)| {
                Management::Red(Red {
                    minimum,
                    maximum: minimum + more,
                    unit,
                    probability,
                    weight,
                    mean_bytes,
                    gentle,
                })
            }
        ),
        range.prop_map(|(minimum, more, unit)| {
            Management::Drd(Drd {
                minimum,
                maximum: minimum + more,
                unit,
            })
        }),
        codel.prop_map(|(target, interval, mtu)| {
            Management::CoDel(CoDel {
                target: Duration::from_nanos(target),
                interval: Duration::from_nanos(interval),
                mtu,
            })
        }),
    ]
}

fn bottleneck() -> impl Strategy<Value = Bottleneck> {
    let trace = Trace::parse("a.trace", TRACE).unwrap();
    let rate = prop_oneof![
        any::<u64>().prop_map(Rate::Constant),
        (1..1000_u64).prop_map(|kilobytes| Rate::Constant(8000 * kilobytes)),
        Just(Rate::Trace(trace)),
    ];
    let queue = (0..=link::MAX_QUEUE_PACKETS, any::<usize>());
    (
        rate,
        any::<u64>(),
        any::<i32>(),
        queue,
        management(),
        any::<bool>(),
    )
        .prop_map(
            |(rate, burst_bytes, overhead_bytes, (queue_packets, queue_bytes), management, ecn)| {
                Bottleneck {
                    rate,
                    burst_bytes,
                    overhead_bytes,
                    queue_packets,
                    queue_bytes,
                    management,
                    ecn,
                }
            },
        )
}

fn jitter() -> impl Strategy<Value = Jitter> {
    let distribution = prop_oneof![
        Just(Distribution::Uniform),
        Just(Distribution::Normal),
        Just(Distribution::Pareto),
        Just(Distribution::ParetoNormal),
        Just(Distribution::Table(Table::parse("a.dist", TABLE).unwrap())),
    ];
    (any::<u64>(), distribution, probability(), any::<bool>()).prop_map(
        |(amount, distribution, correlation, reorders)| Jitter {
            amount: Duration::from_nanos(amount),
            distribution,
            correlation,
            reorders,
        },
    )
}

proptest! {
    /// Whatever a link is like can be said in words that mean just that.
    #[test]
    fn words_read_as_what_they_say(
        bottleneck in prop::option::of(bottleneck()),
        loss in loss(),
        corrupt in (chance(), 1..=link::MAX_FLIPPED_BITS),
        duplicate in chance(),
        delay: u64,
        jitter in jitter(),
        reorder in (chance(), 1_u64..),
    ) {
        let config = LinkConfig {
            bottleneck,
            loss,
            corrupt: Corruption { chance: corrupt.0, bits: corrupt.1 },
            duplicate,
            delay: Duration::from_nanos(delay),
            jitter,
            reorder: Reordering { chance: reorder.0, gap: reorder.1 },
        };
        let words = LinkWords::from(&config);
        let read = words.over(&LinkConfig::default(), &mut files);
        prop_assert_eq!(read.as_ref(), Ok(&config), "{:?}", words);
        let json = serde_json::to_string(&words).unwrap();
        let again: LinkWords = serde_json::from_str(&json).unwrap();
        prop_assert_eq!(again, words);
    }

    /// Hostile words are an error, never a panic.
    #[test]
    fn any_text_is_read_or_refused(text in "[ 0-9a-zA-Z%./-]{0,40}", any in ".{0,30}") {
        for text in [text, any] {
            let all = || Some(text.clone());
            let words = LinkWords {
                delay: all(),
                jitter: all(),
                loss: all(),
                duplicate: all(),
                corrupt: all(),
                reorder: all(),
                bandwidth: all(),
                queue: all(),
            };
            let _ = words.read();
            let _ = text.parse::<Loss>();
            let _ = text.parse::<Corruption>();
            let _ = text.parse::<Reordering>();
            let _ = Jitter::read(&text, &mut files);
            let _ = Bottleneck::new(1).read_queue(&text);
            let _ = Bottleneck::read_bandwidth(&text, &mut files);
            let _ = Table::parse("t", &text);
            let _ = Trace::parse("t", &text);
        }
    }
}
