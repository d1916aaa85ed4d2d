//! Both stores against a naive model: any updates, with time going by and the file closed and opened.

use std::collections::HashMap;

use proptest::prelude::*;

use super::*;
use crate::core::{Binding, UpdateError};

/// A list of bindings for each address of record that has ever had one.
#[derive(Default)]
struct Model(HashMap<AddressOfRecord, Vec<Binding>>);

impl Model {
    fn update(&mut self, address: &AddressOfRecord, update: &Update) -> Answer {
        let current = self.0.get(address);
        match update.apply(current.map_or(&[], Vec::as_slice)) {
            Err(error) => Answer::Refused(error),
            Ok(changed) => {
                if current.is_some() || !changed.is_empty() {
                    self.0.insert(address.clone(), changed.clone());
                }
                Answer::Bindings(changed.into())
            }
        }
    }

    fn look_up(&self, address: &AddressOfRecord) -> Answer {
        self.0.get(address).map_or(Answer::Unknown, |bindings| {
            Answer::Bindings(bindings.as_slice().into())
        })
    }
}

#[derive(Clone, Debug)]
enum Step {
    /// Updates that are all asked for before the first is answered.
    Updates(Vec<Registration>),
    LookUp(usize),
    /// Minutes go by.
    Wait(u64),
    Reopen,
}

#[derive(Clone, Debug)]
struct Registration {
    user: usize,
    contact: String,
    /// Sent before others that have been served.
    is_late: bool,
}

fn registration() -> impl Strategy<Value = Registration> {
    // Bindings never end in the very moment in which they are looked at: clocks are read to the
    // millisecond.
    let contact = (0..3_u8, 0..5_u64).prop_map(|(contact, minutes)| {
        let expires = if minutes == 0 { 0 } else { minutes * 60 + 30 };
        format!("<sip:{contact}@127.0.0.1>;q=0.{contact};x=\"{minutes}\";expires={expires}")
    });
    let contacts = prop_oneof![
        9 => prop::collection::vec(contact, 1..4).prop_map(|contacts| contacts.join(", ")),
        1 => Just("*".to_owned()),
    ];
    let is_late = prop::bool::weighted(0.1);
    (0..4_usize, contacts, is_late).prop_map(|(user, contact, is_late)| Registration {
        user,
        contact,
        is_late,
    })
}

fn step() -> impl Strategy<Value = Step> {
    prop_oneof![
        6 => prop::collection::vec(registration(), 1..6).prop_map(Step::Updates),
        3 => (0..4_usize).prop_map(Step::LookUp),
        2 => (1..4_u64).prop_map(Step::Wait),
        1 => Just(Step::Reopen),
    ]
}

const USERS: [&str; 4] = ["alice", "bob", "c%61rol", "d%C3%A4ve"];

/// The binding in a form in which the clocks' milliseconds do not show; `None` where it has expired.
fn seen(binding: &Binding, now: Instant) -> Option<String> {
    let parts = binding.parts();
    let left = parts.expires.checked_duration_since(now)?;
    let flow = parts
        .flow
        .map(|flow| (flow.transport, flow.local, flow.remote));
    let minutes = left.as_secs_f64() / 60.0;
    Some(format!(
        "{} {} {} {} {} {:?} {} {:?} {} {} {minutes:.1}",
        parts.contact,
        parts.parameters,
        parts.q,
        parts.call_id,
        parts.cseq,
        parts.reg_id,
        parts.gruus,
        flow,
        parts.path,
        parts.lifetime.as_secs(),
    ))
}

fn same(answer: &Answer, expected: &Answer, now: Instant) -> bool {
    match (answer, expected) {
        (Answer::Bindings(answer), Answer::Bindings(expected)) => {
            let all = |bindings: &[Binding]| -> Vec<String> {
                bindings
                    .iter()
                    .filter_map(|binding| seen(binding, now))
                    .collect()
            };
            all(answer) == all(expected)
        }
        _ => answer == expected,
    }
}

fn run(config: &LocationConfig, steps: &[Step]) -> Result<(), TestCaseError> {
    let mut worker = Some(Worker::new(config));
    let mut model = Model::default();
    let mut now = Instant::now();
    let mut cseq = 1000;
    let mut refused = 0;
    for step in steps {
        let open = worker.as_mut().expect("it is open");
        match step {
            Step::Updates(registrations) => {
                let mut expected = HashMap::new();
                for Registration {
                    user,
                    contact,
                    is_late,
                } in registrations
                {
                    cseq += 1;
                    let cseq = if *is_late { cseq - 20 } else { cseq };
                    let (id, address, update) =
                        open.registering.update(USERS[*user], cseq, contact, now);
                    let answer = model.update(&address, &update);
                    refused += u32::from(answer == Answer::Refused(UpdateError::OutOfOrder));
                    expected.insert(id, answer);
                    open.handle
                        .submit(now, id, StoreQuery::Update(address, update));
                }
                while !expected.is_empty() {
                    let (id, answer) = open.next();
                    let expected = expected.remove(&id).expect("a question has one answer");
                    prop_assert!(
                        same(&answer, &expected, now),
                        "{answer:?} instead of {expected:?}"
                    );
                }
            }
            Step::LookUp(user) => {
                let answer = open.look_up(USERS[*user], now);
                let (_, address, _) = open.registering.update(USERS[*user], 1, "*", now);
                let expected = model.look_up(&address);
                prop_assert!(
                    same(&answer, &expected, now),
                    "{answer:?} instead of {expected:?}"
                );
            }
            Step::Wait(minutes) => {
                now += Duration::from_secs(60 * minutes);
                open.maintain(now);
            }
            Step::Reopen if config.url == Url::memory() => {}
            Step::Reopen => {
                drop(worker.take());
                worker = Some(Worker::new(config));
            }
        }
    }
    // Shown with --nocapture: whether late ones are met with often enough.
    println!("{refused} refused");
    Ok(())
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(ProptestConfig::default().cases.div_ceil(4)))]

    #[test]
    fn the_store_in_memory_does_what_the_model_does(steps in prop::collection::vec(step(), 1..40)) {
        run(&LocationConfig::default(), &steps)?;
    }

    #[test]
    fn the_store_in_a_file_does_what_the_model_does(steps in prop::collection::vec(step(), 1..40)) {
        let directory = tempfile::tempdir().expect("a directory");
        run(&in_file(&directory.path().join("a.db")), &steps)?;
    }
}
