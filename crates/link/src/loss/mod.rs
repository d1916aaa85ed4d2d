//! Which packets are lost.

mod gilbert_elliott;
mod listed;
mod markov;

pub use gilbert_elliott::GilbertElliott;
pub use listed::{PacketNumbers, Pattern, Periodic};
pub use markov::FourStates;

use crate::chance::{Chance, Memory};
use crate::random::{Dice, unit};
use crate::words::{Words, WordsError};
use gilbert_elliott::Channel;
use markov::State;
use rand_chacha::ChaCha12Rng;
use std::fmt;
use std::str::FromStr;

/// Which of the packets that leave the queue are lost on their way.
///
/// In words: `10%`, `10% 25%`, `gilbert-elliott 1% 10%`, `bursts 5% 3`, `markov 1% 10% 5% 50% 1%`,
/// `packets 3 7 10-20`, `pattern 0010`, `every 100`, `none`.
#[derive(Clone, PartialEq, Default, Debug)]
pub enum Loss {
    /// None.
    #[default]
    None,
    /// Each with the same probability, independent of the others or not.
    Random(Chance),
    /// Those that a channel with two states loses.
    GilbertElliott(GilbertElliott),
    /// Those that a chain of four states loses.
    Markov(FourStates),
    /// Those of certain numbers.
    Packets(PacketNumbers),
    /// Those of a pattern that repeats.
    Pattern(Pattern),
    /// Every so many packets one.
    Periodic(Periodic),
}

impl From<f64> for Loss {
    /// Each packet with this probability, independent of all others.
    fn from(probability: f64) -> Loss {
        Loss::Random(Chance::independent(probability))
    }
}

impl From<Chance> for Loss {
    fn from(chance: Chance) -> Loss {
        Loss::Random(chance)
    }
}

impl fmt::Display for Loss {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Loss::None => f.write_str("none"),
            Loss::Random(chance) => chance.fmt(f),
            Loss::GilbertElliott(model) => model.fmt(f),
            Loss::Markov(model) => model.fmt(f),
            Loss::Packets(numbers) => numbers.fmt(f),
            Loss::Pattern(pattern) => pattern.fmt(f),
            Loss::Periodic(periodic) => periodic.fmt(f),
        }
    }
}

impl FromStr for Loss {
    type Err = WordsError;

    fn from_str(text: &str) -> Result<Loss, WordsError> {
        let mut words = Words::new(text);
        let loss = match words.peek() {
            Some("none") => {
                words.skip();
                Loss::None
            }
            Some("gilbert-elliott" | "gemodel") => {
                words.skip();
                Loss::GilbertElliott(GilbertElliott::read(&mut words)?)
            }
            Some("bursts") => {
                words.skip();
                Loss::GilbertElliott(bursts(&mut words)?)
            }
            Some("markov" | "state") => {
                words.skip();
                Loss::Markov(FourStates::read(&mut words)?)
            }
            Some("packets") => {
                words.skip();
                Loss::Packets(PacketNumbers::read(&mut words)?)
            }
            Some("pattern") => {
                words.skip();
                Loss::Pattern(Pattern::read(&mut words)?)
            }
            Some("every") => {
                words.skip();
                Loss::Periodic(Periodic::read(&mut words)?)
            }
            _ => return Ok(Loss::Random(text.parse()?)),
        };
        words.end()?;
        Ok(loss)
    }
}

fn bursts(words: &mut Words<'_>) -> Result<GilbertElliott, WordsError> {
    let loss =
        words.value(
            "the share that is lost, below 100%",
            |word| match crate::words::probability(word) {
                Ok(loss) if loss < 1.0 => Ok(loss),
                Ok(_) => Err(format!("{word} in bursts leaves nothing between them")),
                Err(wrong) => Err(wrong),
            },
        )?;
    let length = words.value("the mean length of a burst, such as 3", |word| {
        match word.parse::<f64>() {
            Ok(length) if length >= 1.0 && length.is_finite() => Ok(length),
            _ => Err(format!(
                "\"{word}\" is not a mean length of 1 packet or more"
            )),
        }
    })?;
    Ok(GilbertElliott::bursts(loss, length))
}

/// Loses packets.
#[derive(Clone, Debug)]
pub(crate) struct Losses {
    model: Loss,
    dice: Dice,
    memory: Memory,
    channel: Channel,
    state: State,
}

impl Losses {
    pub(crate) fn new(model: Loss, rng: &mut ChaCha12Rng) -> Losses {
        Losses {
            model,
            dice: Dice::new(1, rng),
            memory: Memory::default(),
            channel: Channel::default(),
            state: State::default(),
        }
    }

    /// Loses packets otherwise from now on; another model begins anew.
    pub(crate) fn set(&mut self, model: Loss) {
        if std::mem::discriminant(&self.model) != std::mem::discriminant(&model) {
            self.memory = Memory::default();
            self.channel = Channel::default();
            self.state = State::default();
        }
        self.model = model;
    }

    pub(crate) fn is_off(&self) -> bool {
        match &self.model {
            Loss::None => true,
            Loss::Random(chance) => chance.is_none(),
            _ => false,
        }
    }

    /// Whether the packet of that number, counted from 0, is lost.
    pub(crate) fn loses(&mut self, packet: u64) -> bool {
        let number = packet.saturating_add(1);
        match &self.model {
            Loss::None => false,
            Loss::Random(chance) => {
                let [word] = self.dice.throw(packet);
                self.memory.happens(chance, unit(word))
            }
            Loss::GilbertElliott(model) => {
                // Two decisions of 32 bits: netem has no more for either.
                let [word] = self.dice.throw(packet);
                let (moves, loses) = (unit(word), unit(word << 32));
                self.channel.loses(model, moves, loses)
            }
            Loss::Markov(model) => {
                let [word] = self.dice.throw(packet);
                self.state.loses(model, unit(word))
            }
            Loss::Packets(numbers) => numbers.contains(number),
            Loss::Pattern(pattern) => pattern.loses(number),
            Loss::Periodic(periodic) => periodic.loses(number),
        }
    }
}
