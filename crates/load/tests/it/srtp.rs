//! Calls of SIPp's scenarios whose media are protected: the keys are in their descriptions (RFC 4568).

use std::net::{Ipv4Addr, SocketAddr, UdpSocket};
use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::Arc;
use std::time::Duration;

use load::driver::{
    GeneratorConfig, LoadGenerator, LoadPlan, MediaPlan, MediaTotal, Role, TaskKind,
};
use load::media::{Clip, Law, Mode};
use load::scenario::{Options, Scenario};
use load::script::{Script, ScriptId};
use media::wav::{self, Sound};
use tempfile::TempDir;
use test_support::{Peer, free_udp_port, require_command, wait_until};

/// Calls of a test.
const CALLS: u64 = 3;
/// Packets that a caller plays.
const PACKETS: u64 = 50;
/// Samples a second of what it plays, and what that is, in hertz.
const RATE: u32 = 8_000;
const TONE: f64 = 440.0;
/// How long baresip may take.
const LIMIT: Duration = Duration::from_secs(20);

/// A caller of SIPp's kind that plays a file of a second, with these lines in its offer. It hangs up late enough for all of it on a
/// busy machine.
fn caller(profile: &str, lines: &str) -> String {
    format!(
        "<scenario name=\"caller\">
<send retrans=\"500\"><![CDATA[
INVITE sip:[service]@[remote_ip]:[remote_port] SIP/2.0
Via: SIP/2.0/[transport] [local_ip]:[local_port];branch=[branch]
From: <sip:caller@[local_ip]:[local_port]>;tag=[call_number]
To: <sip:[service]@[remote_ip]:[remote_port]>
Call-ID: [call_id]
CSeq: 1 INVITE
Contact: <sip:caller@[local_ip]:[local_port]>
Max-Forwards: 70
Content-Type: application/sdp
Content-Length: [len]

v=0
o=- 1 1 IN IP[local_ip_type] [local_ip]
s=-
c=IN IP[media_ip_type] [media_ip]
t=0 0
m=audio [rtpstream_audio_port] {profile} 0
{lines}a=rtcp:[rtpstream_audio_port+1]
a=rtpmap:0 PCMU/8000
]]></send>
<recv response=\"100\" optional=\"true\"/>
<recv response=\"180\" optional=\"true\"/>
<recv response=\"200\" rrs=\"true\"/>
<send><![CDATA[
ACK sip:[service]@[remote_ip]:[remote_port] SIP/2.0
Via: SIP/2.0/[transport] [local_ip]:[local_port];branch=[branch]
From: <sip:caller@[local_ip]:[local_port]>;tag=[call_number]
To: <sip:[service]@[remote_ip]:[remote_port]>[peer_tag_param]
Call-ID: [call_id]
CSeq: 1 ACK
Max-Forwards: 70
Content-Length: 0
]]></send>
<pause milliseconds=\"100\"/>
<nop><action><exec rtp_stream=\"a.ul,1,0\"/></action></nop>
<pause milliseconds=\"2500\"/>
<send retrans=\"500\"><![CDATA[
BYE sip:[service]@[remote_ip]:[remote_port] SIP/2.0
Via: SIP/2.0/[transport] [local_ip]:[local_port];branch=[branch]
From: <sip:caller@[local_ip]:[local_port]>;tag=[call_number]
To: <sip:[service]@[remote_ip]:[remote_port]>[peer_tag_param]
Call-ID: [call_id]
CSeq: 2 BYE
Max-Forwards: 70
Content-Length: 0
]]></send>
<recv response=\"200\"/>
</scenario>"
    )
}

/// A callee that sends back what it hears, with these lines in its answer.
fn callee(profile: &str, lines: &str) -> String {
    format!(
        "<scenario name=\"callee\">
<recv request=\"INVITE\"/>
<send><![CDATA[
SIP/2.0 200 OK
[last_Via:]
[last_From:]
[last_To:];tag=[call_number]
[last_Call-ID:]
[last_CSeq:]
Contact: <sip:[local_ip]:[local_port];transport=[transport]>
Content-Type: application/sdp
Content-Length: [len]

v=0
o=- 1 1 IN IP[local_ip_type] [local_ip]
s=-
c=IN IP[media_ip_type] [media_ip]
t=0 0
m=audio [rtpstream_audio_port] {profile} 0
{lines}a=rtcp:[rtpstream_audio_port+1]
a=rtpmap:0 PCMU/8000
]]></send>
<recv request=\"ACK\"/>
<nop><action><exec rtp_echo=\"startaudio,0,PCMU/8000\"/></action></nop>
<recv request=\"BYE\"/>
<send><![CDATA[
SIP/2.0 200 OK
[last_Via:]
[last_From:]
[last_To:]
[last_Call-ID:]
[last_CSeq:]
Content-Length: 0
]]></send>
</scenario>"
    )
}

/// What became of the media of calls between the two.
async fn calls(caller: String, callee: String) -> Box<MediaTotal> {
    let folder = folder();
    let [caller, callee] = [("caller.xml", caller), ("callee.xml", callee)]
        .map(|(name, text)| scenario(folder.path(), name, &text));
    let scripts = [caller.caller, callee.callee].into_iter().flatten();
    run(scripts.collect(), 5060, CALLS).await
}

/// A folder with a second of a tone in µ-law.
fn folder() -> TempDir {
    let folder = tempfile::tempdir().expect("a folder");
    let step = std::f64::consts::TAU * TONE / f64::from(RATE);
    let sample = |at| (9_000.0 * (step * f64::from(at)).sin()) as i16;
    let coded: Vec<u8> = (0..RATE).map(|at| Law::Pcmu.encode(sample(at))).collect();
    std::fs::write(folder.path().join("a.ul"), coded).expect("a file");
    folder
}

fn scenario(folder: &Path, name: &str, text: &str) -> Scenario {
    let path = folder.join(name);
    std::fs::write(&path, text).expect("a file");
    Scenario::load(&path, &Options::default()).unwrap_or_else(|error| panic!("{error}"))
}

/// Calls to a port, or among users where there are callees.
async fn run(scripts: Vec<Script>, port: u16, count: u64) -> Box<MediaTotal> {
    let config = GeneratorConfig {
        users: 4,
        workers: 1,
        direct: true,
        role: match scripts.len() {
            1 => Role::Callers,
            _ => Role::Both,
        },
        target: SocketAddr::from((Ipv4Addr::LOCALHOST, port)),
        local_ip: Some([127, 0, 0, 1].into()),
        scripts: scripts.into_iter().map(Arc::new).collect(),
        media: Some(MediaPlan {
            clip: Clip::tone(440),
            callers: Mode::Sink,
            callees: Mode::Sink,
            agreed: Vec::new(),
        }),
        seed: 4568,
        ..GeneratorConfig::default()
    };
    let mut load = LoadGenerator::start(config).await.expect("it starts");
    let plan = LoadPlan::at_rate(TaskKind::Script(ScriptId(0)), 20.0, count);
    let outcome = load.run(plan).await.expect("it runs");
    load.shutdown().await;
    let statistics = outcome.statistics;
    let completed = statistics.calls.completed;
    assert_eq!(completed, count, "{:?}", statistics.failures);
    outcome.media.expect("calls have media")
}

const BOTH: &str =
    "a=crypto:[cryptotag1audio] [cryptosuiteaescm128sha1801audio] inline:[cryptokeyparams1audio]
a=crypto:[cryptotag2audio] [cryptosuiteaescm128sha1322audio] inline:[cryptokeyparams2audio]
";
const SHORT: &str =
    "a=crypto:[cryptotag1audio] [cryptosuiteaescm128sha1321audio] inline:[cryptokeyparams1audio]
";

#[tokio::test]
async fn what_is_played_is_protected_and_comes_back_so() {
    // As the scenarios of SIPp have it: the profile says nothing, and the tag of an answer is its own.
    for profile in ["RTP/AVP", "RTP/SAVP"] {
        let media = calls(caller(profile, BOTH), callee(profile, SHORT)).await;
        for side in [&media.callers, &media.callees] {
            assert_eq!((side.calls, side.protected), (CALLS, CALLS), "{media:?}");
            assert_eq!(side.sum.rejected, 0, "{media:?}");
            assert_eq!(side.sum.received, CALLS * PACKETS, "{media:?}");
        }
        assert_eq!(media.callers.sum.sent, CALLS * PACKETS);
        assert_eq!(media.callees.sum.echoed, CALLS * PACKETS);
        assert_eq!(media.undescribed, 0);
    }
}

#[tokio::test]
async fn without_common_keys_the_profile_decides() {
    const NONE: &str = "a=crypto:1 [cryptosuitenullsha1801audio] inline:[cryptokeyparams1audio]\n";
    let media = calls(caller("RTP/AVP", NONE), callee("RTP/AVP", NONE)).await;
    assert_eq!(media.callers.protected, 0);
    assert_eq!(media.callers.sum.received, CALLS * PACKETS, "{media:?}");
    let media = calls(caller("RTP/SAVP", NONE), callee("RTP/SAVP", NONE)).await;
    assert_eq!(media.callers.sum.sent, 0, "{media:?}");
    assert_eq!(media.undescribed, 2 * CALLS, "{media:?}");
}

/// The description of a scenario's INVITE, with the fields that stand before it.
fn description(text: &str) -> &str {
    let start = text
        .find("Content-Type: application/sdp")
        .expect("a description");
    let end = text[start..].find("]]>").expect("an end") + start;
    &text[start..end]
}

/// The offer is in the 200, the answer in the ACK (RFC 3261 section 13.2.1).
#[tokio::test]
async fn keys_may_be_agreed_on_by_the_ack() {
    const EMPTY: &str = "Content-Length: 0\n";
    let text = caller("RTP/SAVP", SHORT);
    let description = description(&text);
    let text = text.replace(description, EMPTY).replacen(
        &format!("CSeq: 1 ACK\nMax-Forwards: 70\n{EMPTY}"),
        &format!("CSeq: 1 ACK\nMax-Forwards: 70\n{description}"),
        1,
    );
    let media = calls(text, callee("RTP/SAVP", BOTH)).await;
    for side in [&media.callers, &media.callees] {
        assert_eq!((side.protected, side.sum.rejected), (CALLS, 0), "{media:?}");
        assert_eq!(side.sum.received, CALLS * PACKETS, "{media:?}");
    }
}

/// A further offer and its answer have new keys, while a pattern is played.
#[tokio::test]
async fn keys_may_change_in_a_call() {
    let text = caller("RTP/AVP", SHORT).replace("a.ul,1,0", "apattern,1,0,PCMU/8000");
    let again = format!(
        "<pause milliseconds=\"500\"/>
<send retrans=\"500\"><![CDATA[
INVITE sip:[service]@[remote_ip]:[remote_port] SIP/2.0
Via: SIP/2.0/[transport] [local_ip]:[local_port];branch=[branch]
From: <sip:caller@[local_ip]:[local_port]>;tag=[call_number]
To: <sip:[service]@[remote_ip]:[remote_port]>[peer_tag_param]
Call-ID: [call_id]
CSeq: 2 INVITE
Contact: <sip:caller@[local_ip]:[local_port]>
Max-Forwards: 70
{}]]></send>
<recv response=\"100\" optional=\"true\"/>
<recv response=\"200\"/>
<send><![CDATA[
ACK sip:[service]@[remote_ip]:[remote_port] SIP/2.0
Via: SIP/2.0/[transport] [local_ip]:[local_port];branch=[branch]
From: <sip:caller@[local_ip]:[local_port]>;tag=[call_number]
To: <sip:[service]@[remote_ip]:[remote_port]>[peer_tag_param]
Call-ID: [call_id]
CSeq: 2 ACK
Max-Forwards: 70
Content-Length: 0
]]></send>
<pause milliseconds=\"1000\"/>",
        description(&text)
    );
    let text = text
        .replace("<pause milliseconds=\"2500\"/>", &again)
        .replace("CSeq: 2 BYE", "CSeq: 3 BYE");
    let other = callee("RTP/AVP", SHORT);
    let (begin, rest) = other
        .split_once("<recv request=\"INVITE\"/>")
        .expect("it waits");
    let (answer, rest) = rest
        .split_once("<recv request=\"ACK\"/>")
        .expect("it waits");
    let in_dialog = answer.replace("[last_To:];tag=[call_number]", "[last_To:]");
    let (echo, rest) = rest
        .split_once("<recv request=\"BYE\"/>")
        .expect("it waits");
    let other = format!(
        "{begin}<recv request=\"INVITE\"/>{answer}<recv request=\"ACK\"/>{echo}\
         <recv request=\"INVITE\"/>{in_dialog}<recv request=\"ACK\"/><recv request=\"BYE\"/>{rest}"
    );
    let media = calls(text, other).await;
    for side in [&media.callers, &media.callees] {
        assert_eq!(side.protected, CALLS);
        // Those on their way when the keys change are lost.
        let lost = side.sum.rejected + media.strays.media;
        assert!(lost <= 20 * CALLS, "{media:?}");
        assert!(side.sum.received > CALLS * 50, "{media:?}");
    }
}

/// A pattern is played until the call ends.
#[tokio::test]
async fn patterns_of_sipp_come_back_protected() {
    let text = caller("RTP/AVP", BOTH).replace("a.ul,1,0", "apattern,1,0,PCMU/8000");
    let media = calls(text, callee("RTP/AVP", SHORT)).await;
    for side in [&media.callers, &media.callees] {
        assert_eq!((side.protected, side.sum.rejected), (CALLS, 0), "{media:?}");
        assert!(side.sum.received > CALLS * PACKETS, "{media:?}");
    }
}

/// baresip, which has SRTP from another hand, hears what is played, and is heard.
#[tokio::test]
async fn baresip_hears_what_is_played() {
    let Some(program) = require_command("baresip", "baresip-core") else {
        return;
    };
    let folder = folder();
    let port = free_udp_port();
    let tone = Sound {
        samples: vec![1_000; RATE as usize * 10],
        sample_rate: RATE,
    };
    let wave = folder.path().join("their.wav");
    std::fs::write(&wave, tone.to_wav()).expect("a file");
    let modules = ["g711", "aufile", "aubridge", "sndfile", "srtp", "uuid"];
    let modules: String = modules
        .map(|module| format!("module {module}.so\n"))
        .concat();
    let config = format!(
        "sip_listen 127.0.0.1:{port}\nnet_interface 127.0.0.1\naudio_player aubridge,here\naudio_source aufile,{}\naudio_alert aubridge,here\n\
         snd_path {}\nmodule_path /usr/lib/baresip/modules\n{modules}module_tmp account.so\nmodule_app menu.so\n",
        wave.display(),
        folder.path().display(),
    );
    let account = "<sip:baresip@127.0.0.1>;regint=0;answermode=auto;audio_codecs=PCMU/8000/1;mediaenc=srtp-mand\n";
    for (file, text) in [
        ("config", config.as_str()),
        ("accounts", account),
        ("contacts", ""),
    ] {
        std::fs::write(folder.path().join(file), text).expect("a file");
    }
    let mut command = Command::new(program);
    command.args(["-4", "-f"]).arg(folder.path());
    let baresip = Peer::spawn(&mut command);
    let listens = || UdpSocket::bind((Ipv4Addr::LOCALHOST, port)).is_err();
    assert!(wait_until(LIMIT, listens), "{}", baresip.output());
    let text = caller("RTP/SAVP", BOTH).replace("[service]", "baresip");
    let script = scenario(folder.path(), "caller.xml", &text).caller;
    let media = run(script.into_iter().collect(), port, 1).await;
    let callers = &media.callers;
    assert_eq!(callers.protected, 1);
    // When it ends the call it sends its last reports and goodbye in clear.
    assert!(callers.sum.rejected <= 3, "{callers:?}");
    assert!(callers.sum.received > 30, "{callers:?}");
    let mut heard = None;
    wait_until(LIMIT, || {
        let file = recording(folder.path()).and_then(|path| std::fs::read(path).ok());
        heard = file.and_then(|file| wav::read(&file).ok());
        heard
            .as_ref()
            .is_some_and(|heard| heard.samples.len() > RATE as usize / 2)
    });
    let heard = heard
        .expect("baresip has written what it heard")
        .at_rate(RATE);
    let share = heard.chunks_exact(RATE as usize / 4).map(tone_share);
    let share = share.fold(0.0, f64::max);
    assert!(
        share > 0.9,
        "the tone is {share} of the clearest quarter of a second"
    );
}

/// What baresip has decoded.
fn recording(folder: &Path) -> Option<PathBuf> {
    let files = std::fs::read_dir(folder).expect("the folder");
    let mut paths = files.filter_map(|file| Some(file.ok()?.path()));
    paths.find(|path| path.to_string_lossy().ends_with("-dec.wav"))
}

/// How much of the samples is the tone, from 0 to 1.
fn tone_share(samples: &[i16]) -> f64 {
    let (mut sine, mut cosine, mut all) = (0.0, 0.0, 0.0);
    for (at, sample) in (0..).zip(samples) {
        let turn = std::f64::consts::TAU * TONE * f64::from(at) / f64::from(RATE);
        let sample = f64::from(*sample);
        sine += sample * turn.sin();
        cosine += sample * turn.cos();
        all += sample * sample;
    }
    let power: f64 = sine * sine + cosine * cosine;
    2.0 * power / (samples.len() as f64 * all).max(1.0)
}
