//! Calls of SIPp's scenarios whose media are protected: the keys are in their descriptions (RFC 4568).

use std::net::{Ipv4Addr, SocketAddr};

use load::driver::{GeneratorConfig, LoadGenerator, LoadPlan, MediaPlan, MediaTotal, TaskKind};
use load::media::{Clip, Mode};
use load::scenario::{Options, Scenario};
use load::script::ScriptId;

/// Calls of a test.
const CALLS: u64 = 3;
/// Packets that a caller plays.
const PACKETS: u64 = 20;

/// A caller of SIPp's kind that plays a file, with these lines in its offer.
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
<nop><action><exec rtp_stream=\"a.ul,2,0\"/></action></nop>
<pause milliseconds=\"700\"/>
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
    let folder = tempfile::tempdir().expect("a folder");
    std::fs::write(folder.path().join("a.ul"), [0x55; 1600]).expect("a file");
    let scenario = |name: &str, text: String| {
        let path = folder.path().join(name);
        std::fs::write(&path, text).expect("a file");
        Scenario::load(&path, &Options::default()).unwrap_or_else(|error| panic!("{error}"))
    };
    let caller = scenario("caller.xml", caller).caller;
    let callee = scenario("callee.xml", callee).callee;
    let scripts = [caller, callee].into_iter().flatten();
    let config = GeneratorConfig {
        users: 4,
        workers: 1,
        direct: true,
        target: SocketAddr::from((Ipv4Addr::LOCALHOST, 5060)),
        local_ip: Some([127, 0, 0, 1].into()),
        scripts: scripts.map(std::sync::Arc::new).collect(),
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
    let plan = LoadPlan::at_rate(TaskKind::Script(ScriptId(0)), 20.0, CALLS);
    let outcome = load.run(plan).await.expect("it runs");
    load.shutdown().await;
    let statistics = outcome.statistics;
    assert_eq!(
        statistics.calls.completed, CALLS,
        "{:?}",
        statistics.failures
    );
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
