use super::*;
use crate::packet::Chunk;

const RTO: Duration = Duration::from_secs(1);
const KIND: RequestKind = RequestKind::ReConfiguration;

fn chunk() -> EncodedChunk {
    EncodedChunk::new(&Chunk::CookieAck).unwrap()
}

fn due(queue: &ControlQueue) -> Vec<RequestKind> {
    let lanes = queue.lanes().into_iter();
    lanes.flat_map(Lanes::due).map(|(kind, _)| kind).collect()
}

#[test]
fn one_request_of_each_kind_is_outstanding() {
    let mut queue = ControlQueue::default();
    assert_eq!(queue.timeout(), None);
    for _ in 0..2 {
        for kind in RequestKind::ALL {
            queue.push(kind, chunk()).unwrap();
        }
    }
    assert_eq!(due(&queue), RequestKind::ALL);
    let now = Instant::now();
    queue.sent(KIND, now, PathId::FIRST, RTO);
    assert_eq!(due(&queue), [RequestKind::AddressConfiguration]);
    assert_eq!(queue.timeout(), Some(now + RTO));
    queue.answered(KIND);
    assert_eq!(due(&queue), RequestKind::ALL, "the next one follows");
    queue.answered(KIND);
    assert!(!queue.is_busy(KIND));
    assert!(queue.is_busy(RequestKind::AddressConfiguration));
}

#[test]
fn no_more_wait_than_there_is_room_for() {
    let mut queue = ControlQueue::default();
    for _ in 0..=MAX_WAITING {
        queue.push(KIND, chunk()).unwrap();
    }
    assert_eq!(queue.push(KIND, chunk()), Err(QueueFull));
    queue.answered(KIND);
    assert_eq!(queue.push(KIND, chunk()), Ok(()));
}

#[test]
fn an_expired_request_is_to_be_sent_again() {
    let mut queue = ControlQueue::default();
    queue.push(KIND, chunk()).unwrap();
    let now = Instant::now();
    assert_eq!(queue.take_expired(KIND, now), None, "it was not sent");
    queue.sent(KIND, now, PathId::FIRST, RTO);
    assert_eq!(queue.take_expired(KIND, now), None);
    let expired = ExpiredRequest {
        path: PathId::FIRST,
        is_error: true,
    };
    assert_eq!(queue.take_expired(KIND, now + RTO), Some(expired));
    assert_eq!(due(&queue), [KIND]);
    assert_eq!(queue.take_expired(KIND, now + RTO), None, "once");
    assert_eq!(queue.proved_path(KIND), Some(PathId::FIRST));
    let second = PathId::FIRST.next().unwrap();
    queue.sent(KIND, now + RTO, second, RTO);
    assert_eq!(queue.proved_path(KIND), None, "it went over both");
}

#[test]
fn a_request_that_the_peer_works_on_is_no_error() {
    let mut queue = ControlQueue::default();
    queue.push(KIND, chunk()).unwrap();
    let now = Instant::now();
    queue.sent(KIND, now, PathId::FIRST, RTO);
    let later = now + RTO / 2;
    queue.in_progress(KIND, later, |_| Some(RTO));
    assert_eq!(queue.timeout(), Some(later + RTO));
    let expired = queue.take_expired(KIND, later + RTO).unwrap();
    assert!(!expired.is_error);
    queue.in_progress(KIND, later + RTO, |_| Some(RTO));
    assert_eq!(queue.timeout(), None, "it is to be sent");
}
