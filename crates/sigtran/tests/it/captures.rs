//! tshark reads the captures of processes: every message, and nothing malformed.

use m3ua::{NetworkId, PeerId};
use sigtran::{Configuration, start};
use test_support::{free_udp_port, tshark};

use crate::over_udp::{count, message, run, until, until_active};

/// An ASP registers its key, becomes active, audits, sends and receives, and goes.
#[tokio::test]
async fn tshark_finds_nothing_malformed() {
    let directory = tempfile::tempdir().expect("a directory");
    let capture = directory.path().join("m3ua.pcapng");
    let port = free_udp_port();
    let configuration = format!(
        r#"
        [sctp]
        addresses = ["127.0.0.1"]
        encapsulation_port = {port}
        pcap = {capture:?}
        [m3ua]
        registration = "dynamic"
        t_beat = "50ms"
        [[network]]
        appearance = 4
        [[peer]]
        name = "asp"
        role = "asp"
        address = "127.0.0.1:3001"
    "#
    );
    let configuration = Configuration::read(&configuration).expect("a configuration");
    let gateway = start(&configuration, |_| {}).await.expect("a process");
    let (asp, received) = run(&format!(
        r#"
        [sctp]
        addresses = ["127.0.0.1"]
        port = 3001
        encapsulation_port = 0
        [[network]]
        appearance = 4
        [[peer]]
        name = "sgp"
        role = "sgp"
        address = "127.0.0.1:2905"
        encapsulation_port = {port}
        asp_identifier = 9
        [[application_server]]
        name = "own"
        served_by = "us"
        peers = ["sgp"]
        network = 4
        dpc = ["0-0-1"]
        si = ["sccp", "isup"]
        traffic_mode = "loadshare"
        register = true
        [[route]]
        network = 4
        via = "sgp"
    "#
    ))
    .await;
    until_active(&asp).await;
    let affected = message("0-0-1", "0-0-2", 0, 0).dpc;
    let told = move |engine: &mut m3ua::SignallingProcess, _| {
        for availability in [
            m3ua::Availability::Unavailable,
            m3ua::Availability::Restricted,
            m3ua::Availability::Available,
        ] {
            engine.set_availability(NetworkId(0), &[affected.into()], availability);
        }
        engine.set_congestion(NetworkId(0), &[affected.into()], Some(2));
        for sls in 0..16 {
            let message = message("0-0-2", "0-0-1", sls, u32::from(sls));
            engine.transfer(NetworkId(0), message).expect("a way");
        }
    };
    gateway.with(told).await.expect("it runs");
    until("all", async || count(&received) == 16).await;
    let audit = move |engine: &mut m3ua::SignallingProcess, _| {
        engine.audit(PeerId(0), NetworkId(0), &[affected.into()]);
        let back = message("0-0-1", "0-0-2", 5, 1);
        engine.transfer(NetworkId(0), back).expect("a way");
    };
    asp.with(audit).await.expect("it runs");
    // Heartbeats.
    tokio::time::sleep(std::time::Duration::from_millis(200)).await;
    asp.stop().await;
    gateway.stop().await;

    let in_udp = format!("udp.port=={port},sctp");
    let fields = ["-e", "m3ua.message_class", "-e", "m3ua.message_type"];
    let shown = [&["-d", &in_udp, "-Y", "m3ua", "-T", "fields"][..], &fields].concat();
    let Some(all) = tshark(&capture, &shown) else {
        return;
    };
    let wrong = "_ws.malformed || sctp.chunk_length.bad || sctp.checksum.status == \"Bad\"";
    let wrong = tshark(&capture, &["-d", &in_udp, "-Y", wrong]);
    assert_eq!(wrong.as_deref(), Some(""));
    // A packet may hold several messages: their numbers are separated by commas.
    let mut kinds: Vec<(String, String)> = Vec::new();
    for line in all.lines() {
        let (classes, types) = line.split_once('\t').expect("two fields");
        let pairs = classes.split(',').zip(types.split(','));
        kinds.extend(pairs.map(|(class, kind)| (class.to_owned(), kind.to_owned())));
    }
    for (class, kind) in [
        // NTFY, DATA; DUNA, DAVA, DAUD, SCON, DRST; ASPUP, ASPDN, BEAT and their acknowledgements; ASPAC, ASPIA; REG, DEREG.
        (0, 1),
        (1, 1),
        (2, 1),
        (2, 2),
        (2, 3),
        (2, 4),
        (2, 6),
        (3, 1),
        (3, 2),
        (3, 3),
        (3, 4),
        (3, 5),
        (3, 6),
        (4, 1),
        (4, 2),
        (4, 3),
        (4, 4),
        (9, 1),
        (9, 2),
        (9, 3),
        (9, 4),
    ] {
        let kind = (class.to_string(), kind.to_string());
        assert!(kinds.contains(&kind), "{kind:?} is not among {kinds:?}");
    }
    let data = kinds.iter().filter(|it| it.0 == "1").count();
    assert_eq!(data, 17);
}
