//! What all listeners and sessions of a server share: who is expected, and how much is going on.

use std::collections::HashMap;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use tokio::net::TcpStream;
use tokio::sync::{OwnedSemaphorePermit, Semaphore, mpsc};

use super::{ServerConfig, ServerEvent};
use crate::control::Token;
use crate::flow::udp::UdpFlow;

/// Shared by all listeners and sessions.
#[derive(Debug)]
pub(crate) struct Registry {
    pub(crate) events: mpsc::Sender<ServerEvent>,
    pub(crate) allow_scale: bool,
    max_tests: usize,
    tests: Arc<Semaphore>,
    flows: Arc<Semaphore>,
    unknown: Arc<Semaphore>,
    /// Tests begun since the server started.
    begun: AtomicU64,
    /// Keys are tokens of our own making, so nobody can choose them to collide.
    expected: Mutex<Expected>,
}

#[derive(Debug, Default)]
struct Expected {
    tcp: HashMap<Token, mpsc::Sender<(Token, TcpStream)>>,
    udp: HashMap<Token, Arc<UdpFlow>>,
}

/// Room for a test and its flows, given back when it is dropped.
#[derive(Debug)]
pub(crate) struct Room {
    _test: OwnedSemaphorePermit,
    _flows: OwnedSemaphorePermit,
}

impl Registry {
    pub(crate) fn new(config: &ServerConfig, events: mpsc::Sender<ServerEvent>) -> Registry {
        Registry {
            events,
            allow_scale: config.allow_scale,
            max_tests: config.max_tests,
            tests: Arc::new(Semaphore::new(config.max_tests)),
            flows: Arc::new(Semaphore::new(config.max_flows)),
            unknown: Arc::new(Semaphore::new(config.max_unknown)),
            begun: AtomicU64::new(0),
            expected: Mutex::default(),
        }
    }

    /// Room for someone who has not said yet what he wants.
    pub(crate) fn admit_unknown(&self) -> Option<OwnedSemaphorePermit> {
        Arc::clone(&self.unknown).try_acquire_owned().ok()
    }

    /// Room for a test, or why there is none.
    pub(crate) fn admit(&self, flows: usize) -> Result<Room, String> {
        let test = Arc::clone(&self.tests).try_acquire_owned();
        let test = test.map_err(|_| {
            format!(
                "{} tests are already running, which is the maximum",
                self.max_tests
            )
        })?;
        let count = u32::try_from(flows).unwrap_or(u32::MAX);
        let flows = Arc::clone(&self.flows).try_acquire_many_owned(count);
        let flows =
            flows.map_err(|_| format!("{count} more flows exceed the limit of this server"))?;
        self.begun.fetch_add(1, Ordering::Relaxed);
        Ok(Room {
            _test: test,
            _flows: flows,
        })
    }

    /// How many tests have begun, and how many run.
    pub(crate) fn activity(&self) -> (u64, usize) {
        let running = self.max_tests - self.tests.available_permits();
        (self.begun.load(Ordering::Relaxed), running)
    }

    /// Connections that show one of these tokens go to the returned receiver, each token once.
    pub(crate) fn expect_tcp(
        self: &Arc<Self>,
        tokens: &[Token],
    ) -> (Expectation, mpsc::Receiver<(Token, TcpStream)>) {
        let (sender, receiver) = mpsc::channel(tokens.len().max(1));
        let mut expected = self.expected();
        for token in tokens {
            expected.tcp.insert(*token, sender.clone());
        }
        (Expectation::new(self, tokens), receiver)
    }

    /// Datagrams that show a flow's token go to it.
    pub(crate) fn expect_udp(self: &Arc<Self>, flows: &[Arc<UdpFlow>]) -> Expectation {
        let mut expected = self.expected();
        for flow in flows {
            expected.udp.insert(flow.token, Arc::clone(flow));
        }
        let tokens: Vec<Token> = flows.iter().map(|flow| flow.token).collect();
        Expectation::new(self, &tokens)
    }

    /// Who waits for the connection that shows this token; nobody does a second time.
    pub(crate) fn take_tcp(&self, token: Token) -> Option<mpsc::Sender<(Token, TcpStream)>> {
        self.expected().tcp.remove(&token)
    }

    /// The flow of a token.
    pub(crate) fn udp_flow(&self, token: Token) -> Option<Arc<UdpFlow>> {
        self.expected().udp.get(&token).cloned()
    }

    /// No panic can happen while the lock is held that would leave the tables in disorder.
    fn expected(&self) -> MutexGuard<'_, Expected> {
        self.expected.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Tokens that are expected as long as this lives.
#[derive(Debug)]
pub(crate) struct Expectation {
    registry: Arc<Registry>,
    tokens: Vec<Token>,
}

impl Expectation {
    fn new(registry: &Arc<Registry>, tokens: &[Token]) -> Expectation {
        Expectation {
            registry: Arc::clone(registry),
            tokens: tokens.to_vec(),
        }
    }
}

impl Drop for Expectation {
    fn drop(&mut self) {
        let mut expected = self.registry.expected();
        for token in &self.tokens {
            expected.tcp.remove(token);
            expected.udp.remove(token);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn registry(max_tests: usize, max_flows: usize) -> Arc<Registry> {
        let config = ServerConfig {
            max_tests,
            max_flows,
            ..ServerConfig::new(Vec::new(), Vec::new())
        };
        Arc::new(Registry::new(&config, mpsc::channel(1).0))
    }

    #[test]
    fn room_is_bounded_and_comes_back() {
        let registry = registry(2, 10);
        let first = registry.admit(4).unwrap();
        let refusal = registry.admit(7).unwrap_err();
        assert!(refusal.contains("7 more flows"), "{refusal}");
        let second = registry.admit(6).unwrap();
        let refusal = registry.admit(1).unwrap_err();
        assert!(refusal.contains("2 tests"), "{refusal}");
        assert_eq!(registry.activity(), (2, 2));
        drop((first, second));
        assert!(registry.admit(10).is_ok());
    }

    #[test]
    fn a_token_is_taken_once_and_forgotten_with_its_test() {
        let registry = registry(1, 1);
        let tokens = [Token(1), Token(2)];
        let (expectation, _receiver) = registry.expect_tcp(&tokens);
        assert!(registry.take_tcp(Token(3)).is_none());
        assert!(registry.take_tcp(Token(1)).is_some());
        assert!(registry.take_tcp(Token(1)).is_none());
        drop(expectation);
        assert!(registry.take_tcp(Token(2)).is_none());
    }
}
