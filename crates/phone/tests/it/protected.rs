//! Calls whose media are protected, checked and watched.

use std::time::Duration;

use media::codec::Codec;
use media::wav;
use phone::{CallQuality, Command, MediaConfig, PhoneEvent, Source, Srtp, SrtpKeys};
use sip::Transport;

use crate::calls::{block_on, share};
use crate::phones::Running;

/// A call from one to the other with a tone of 440 Hz, and how it was for the one who heard it.
async fn call(caller: MediaConfig, callee: MediaConfig) -> CallQuality {
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().join("heard.wav");
    let mut caller = Running::start("alice", Transport::Udp, |config| {
        config.codecs = vec![Codec::Pcmu];
        config.source = Source::Tone(440.0);
        config.media = caller;
    });
    let mut callee = Running::start("bob", Transport::Udp, |config| {
        config.answers = true;
        config.media = callee;
        config.quality_interval = Duration::from_millis(200);
        config.recording = Some(path.clone());
    });
    caller.dial(&callee.uri).await;
    caller.answered().await;
    let mut quality = CallQuality::default();
    while quality.packets_received < 60 {
        quality = callee
            .wait_for(|event| match event {
                PhoneEvent::Quality { quality, .. } => Some(*quality),
                _ => None,
            })
            .await;
    }
    caller.command(Command::Hangup { call: None }).await;
    callee.ended().await;
    let heard = wav::read(&std::fs::read(&path).unwrap()).unwrap();
    let end = heard.samples.len();
    let share = share(
        &heard.samples[end - 6_000..end - 800],
        440.0,
        heard.sample_rate,
    );
    assert!(share > 0.6, "the tone is {share} of what was heard");
    quality
}

fn protected(srtp: Srtp, srtp_keys: SrtpKeys) -> MediaConfig {
    MediaConfig {
        srtp,
        srtp_keys,
        sdes_in_clear: true,
        ..MediaConfig::default()
    }
}

#[test]
fn a_call_is_heard_under_keys_of_its_descriptions() {
    block_on(async {
        let required = protected(Srtp::Required, SrtpKeys::Sdes);
        let quality = call(required.clone(), MediaConfig::default()).await;
        assert_eq!(quality.srtp, Some("AEAD_AES_256_GCM"));
        // RFC 8643: those who can, do.
        let optional = protected(Srtp::Optional, SrtpKeys::Sdes);
        let quality = call(optional.clone(), required).await;
        assert_eq!(quality.srtp, Some("AEAD_AES_256_GCM"));
        let off = MediaConfig {
            srtp: Srtp::Off,
            ..MediaConfig::default()
        };
        let quality = call(optional, off).await;
        assert_eq!(quality.srtp, None);
    });
}

#[test]
fn a_call_is_heard_under_keys_of_a_handshake() {
    block_on(async {
        let required = protected(Srtp::Required, SrtpKeys::Dtls);
        let quality = call(required.clone(), MediaConfig::default()).await;
        assert_eq!(quality.srtp, Some("AEAD_AES_256_GCM"));
        let with_ice = MediaConfig {
            ice: true,
            ..required
        };
        let quality = call(with_ice.clone(), with_ice).await;
        assert_eq!(quality.srtp, Some("AEAD_AES_256_GCM"));
    });
}

#[test]
fn a_call_is_heard_over_a_path_that_was_checked() {
    block_on(async {
        let with_ice = MediaConfig {
            ice: true,
            ..MediaConfig::default()
        };
        call(with_ice.clone(), with_ice.clone()).await;
        call(with_ice, MediaConfig::default()).await;
    });
}

#[test]
fn a_call_that_cannot_be_protected_as_it_must_is_refused() {
    block_on(async {
        let mut caller = Running::start("alice", Transport::Udp, |config| {
            config.media = protected(Srtp::Required, SrtpKeys::Sdes);
        });
        let callee = Running::start("bob", Transport::Udp, |config| {
            config.answers = true;
            config.media.srtp = Srtp::Off;
        });
        caller.dial(&callee.uri).await;
        let PhoneEvent::Ended { reason, status, .. } = caller.ended().await else {
            panic!("it ended");
        };
        assert_eq!((reason, status), ("refused", Some(488)));
        // Keys in a description are not sent in clear unless that is allowed.
        let mut caller = Running::start("alice", Transport::Udp, |config| {
            config.media.srtp = Srtp::Required;
        });
        caller.dial(&callee.uri).await;
        let problem = caller
            .wait_for(|event| match event {
                PhoneEvent::Refused { problem } => Some(problem.clone()),
                _ => None,
            })
            .await;
        assert!(problem.contains("SRTP"), "{problem}");
    });
}

#[test]
fn a_held_call_goes_on_under_its_keys() {
    block_on(async {
        let media = protected(Srtp::Required, SrtpKeys::Sdes);
        let mut caller = Running::start("alice", Transport::Udp, |config| {
            config.media = media;
            config.codecs = vec![Codec::Pcmu];
        });
        let mut callee = Running::start("bob", Transport::Udp, |config| {
            config.answers = true;
            config.quality_interval = Duration::from_millis(200);
        });
        caller.dial(&callee.uri).await;
        caller.answered().await;
        for command in [Command::Hold { call: None }, Command::Resume { call: None }] {
            caller.command(command).await;
            let accepted = caller
                .wait_for(|event| match event {
                    PhoneEvent::Changed { accepted, .. } => Some(*accepted),
                    _ => None,
                })
                .await;
            assert!(accepted);
        }
        let quality = |event: &PhoneEvent| match event {
            PhoneEvent::Quality { quality, .. } => Some(*quality),
            _ => None,
        };
        let before = callee.wait_for(quality).await;
        let mut after = before;
        while after.packets_received < before.packets_received + 20 {
            after = callee.wait_for(quality).await;
        }
        assert_eq!(after.packets_dropped, 0, "{after:?}");
    });
}

#[test]
fn each_side_hears_from_the_other_how_it_sounds() {
    block_on(async {
        let mut caller = Running::start("alice", Transport::Udp, |config| {
            config.source = Source::Tone(440.0);
            config.codecs = vec![Codec::Pcmu];
            config.quality_interval = Duration::from_millis(200);
        });
        let callee = Running::start("bob", Transport::Udp, |config| config.answers = true);
        caller.dial(&callee.uri).await;
        let remote = caller
            .wait_for(|event| match event {
                PhoneEvent::Quality { quality, .. } => quality.remote,
                _ => None,
            })
            .await;
        assert!(remote.mos.is_some_and(|mos| mos > 3.5), "{remote:?}");
        assert!(
            remote.r_factor.is_some_and(|rating| rating > 70),
            "{remote:?}"
        );
        // The tone's level is a tenth of the loudest.
        assert!(
            remote
                .signal_dbm0
                .is_some_and(|level| (-30..5).contains(&level)),
            "{remote:?}"
        );
    });
}

#[test]
fn a_call_without_packets_is_told_of_and_hung_up() {
    block_on(async {
        let mut caller = Running::start("alice", Transport::Udp, |config| {
            config.media.rtp_timeout = 1;
            config.media.rtp_timeout_hangup = true;
        });
        // Nothing that it sends can be read by the other side: it is none of the agreed keys.
        let silent = std::net::UdpSocket::bind("127.0.0.1:0").unwrap();
        silent
            .set_read_timeout(Some(Duration::from_secs(10)))
            .unwrap();
        let to = format!("sip:bob@{}", silent.local_addr().unwrap());
        let server = std::thread::spawn(move || answer_without_media(&silent));
        caller.dial(&to).await;
        caller.answered().await;
        let seconds = caller
            .wait_for(|event| match event {
                PhoneEvent::RtpTimeout { seconds, .. } => Some(*seconds),
                _ => None,
            })
            .await;
        assert_eq!(seconds, 1);
        let PhoneEvent::Ended { reason, .. } = caller.ended().await else {
            panic!("it ended");
        };
        assert_eq!(reason, "local");
        server.join().unwrap();
    });
}

/// Answers an INVITE and a BYE, and sends nothing else.
fn answer_without_media(socket: &std::net::UdpSocket) {
    let mut buffer = [0; 8_192];
    loop {
        let (length, from) = socket.recv_from(&mut buffer).expect("a request");
        let request = String::from_utf8_lossy(&buffer[..length]).into_owned();
        let method = request.split(' ').next().unwrap_or_default().to_owned();
        if method == "ACK" {
            continue;
        }
        let mut answer = "SIP/2.0 200 OK\r\n".to_owned();
        for line in request.lines() {
            let name = line.split(':').next().unwrap_or_default();
            if ["Via", "From", "Call-ID", "CSeq"].contains(&name) {
                answer += &format!("{line}\r\n");
            }
            if name == "To" {
                let tag = if line.contains("tag=") { "" } else { ";tag=b" };
                answer += &format!("{line}{tag}\r\n");
            }
        }
        let here = socket.local_addr().expect("an address");
        let body = match method.as_str() {
            "INVITE" => {
                "v=0\r\no=- 1 1 IN IP4 127.0.0.1\r\ns=-\r\nc=IN IP4 127.0.0.1\r\nt=0 0\r\nm=audio 9 RTP/AVP 0\r\n"
            }
            _ => "",
        };
        answer += &format!(
            "Contact: <sip:bob@{here}>\r\nContent-Type: application/sdp\r\nContent-Length: {}\r\n\r\n{body}",
            body.len()
        );
        socket.send_to(answer.as_bytes(), from).expect("it is sent");
        if method == "BYE" {
            return;
        }
    }
}
