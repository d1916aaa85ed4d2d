//! All call flows of RFC 3665, message by message: registrations (section 2) and sessions (section 3).
//!
//! The messages are those of the RFC, out of the file that the tests of `sip` read them from. What a
//! user agent sends is taken from there, with the Vias, Routes and digest answers that the run demands;
//! what a server sends is compared with it. Hosts of user agents are replaced by their addresses, so that
//! no name has to be resolved. Where our proxies do not do what those of the RFC do is said at each flow.

mod registrations;
mod stage;
mod user;

use std::time::Duration;

use proxy::core::{ForwardingPolicy, Mode, Policy};

use stage::{ATLANTA, BILOXI, CHICAGO, Stage, asking};

/// The two proxies of most flows, the first of which asks Alice for her password if it is to.
fn trapezoid(transport: &'static str, first_asks: bool) -> Stage {
    let first = if first_asks {
        asking(ATLANTA)
    } else {
        Policy::default()
    };
    Stage::new(transport)
        .with("ss1", &[ATLANTA], first)
        .with("ss2", &[BILOXI], Policy::default())
        .with_bob(
            "ss2",
            BILOXI,
            &format!("<sip:bob@192.0.2.201;transport={transport}>"),
        )
}

/// Between two user agents without a server. Here one stands between them: the same messages, each
/// one hop further.
#[test]
fn section_3_1_successful_session_establishment() {
    let mut stage = Stage::new("tcp")
        .with("ss2", &[BILOXI], Policy::default())
        .with_bob("ss2", BILOXI, "<sip:bob@192.0.2.201;transport=tcp>");
    stage.goes("alice", "ss2", 14);
    stage.hop("ss2", "bob", 14);
    for place in [15, 16] {
        stage.goes("bob", "ss2", place);
        stage.hop("ss2", "alice", place);
    }
    stage.goes("alice", "ss2", 17);
    stage.hop("ss2", "bob", 17);
    stage.goes("bob", "ss2", 18);
    stage.hop("ss2", "alice", 18);
    stage.goes("alice", "ss2", 19);
    stage.hop("ss2", "bob", 19);
    stage.ends();
}

#[test]
fn section_3_2_session_establishment_through_two_proxies() {
    let mut stage = trapezoid("tcp", true);
    stage.goes("alice", "ss1", 20);
    stage.goes("ss1", "alice", 21);
    stage.goes("alice", "ss1", 22);
    stage.goes("alice", "ss1", 23);
    stage.goes("ss1", "ss2", 24);
    stage.goes("ss1", "alice", 25);
    stage.goes("ss2", "bob", 26);
    stage.goes("ss2", "ss1", 27);
    for place in [28, 31] {
        stage.goes("bob", "ss2", place);
        stage.goes("ss2", "ss1", place + 1);
        stage.goes("ss1", "alice", place + 2);
    }
    stage.goes("alice", "ss1", 34);
    stage.goes("ss1", "ss2", 35);
    stage.goes("ss2", "bob", 36);
    stage.goes("bob", "ss2", 37);
    stage.goes("ss2", "ss1", 38);
    stage.goes("ss1", "alice", 39);
    stage.goes("alice", "ss1", 40);
    stage.goes("ss1", "ss2", 41);
    stage.goes("ss2", "bob", 42);
    stage.ends();
}

/// The second proxy knows Alice as well, by a password in a realm of its own.
#[test]
fn section_3_3_session_with_multiple_proxy_authentication() {
    let mut stage = Stage::new("udp")
        .with("ss1", &[ATLANTA], asking(ATLANTA))
        .with("ss2", &[BILOXI, ATLANTA], asking(BILOXI))
        .with_bob("ss2", BILOXI, "<sip:bob@192.0.2.201>");
    stage.goes("alice", "ss1", 43);
    stage.goes("ss1", "alice", 44);
    stage.goes("alice", "ss1", 45);
    stage.goes("alice", "ss1", 46);
    stage.goes("ss1", "alice", 47);
    stage.goes("ss1", "ss2", 48);
    stage.goes("ss2", "ss1", 49);
    // In the RFC it has Alice's Via.
    stage.hop("ss1", "ss2", 50);
    stage.goes("ss1", "alice", 51);
    stage.goes("alice", "ss1", 52);
    stage.goes("alice", "ss1", 53);
    stage.goes("ss1", "alice", 54);
    stage.goes("ss1", "ss2", 55);
    stage.goes("ss2", "ss1", 56);
    stage.goes("ss2", "bob", 57);
    stage.goes("bob", "ss2", 58);
    stage.goes("ss2", "ss1", 59);
    stage.goes("ss1", "alice", 60);
    stage.goes("alice", "ss1", 61);
    // In the RFC it gets a Contact on its way.
    stage.hop("ss1", "ss2", 61);
    stage.hop("ss2", "bob", 61);
    stage.ends();
}

/// The first proxy is dead: nobody answers message 64, and Alice asks the second one.
#[test]
fn section_3_4_session_with_proxy_failure() {
    let mut stage = Stage::new("udp")
        .with("ss2", &[BILOXI, ATLANTA], asking(BILOXI))
        .with_bob("ss2", BILOXI, "<sip:bob@192.0.2.201>");
    stage.goes("alice", "ss2", 65);
    stage.goes("ss2", "alice", 66);
    stage.goes("alice", "ss2", 67);
    stage.goes("alice", "ss2", 68);
    stage.goes("ss2", "bob", 69);
    stage.goes("ss2", "alice", 70);
    stage.goes("bob", "ss2", 71);
    stage.goes("ss2", "alice", 72);
    stage.goes("bob", "ss2", 73);
    stage.goes("ss2", "alice", 74);
    stage.goes("alice", "ss2", 75);
    stage.goes("ss2", "bob", 76);
    stage.goes("bob", "ss2", 77);
    stage.goes("ss2", "alice", 78);
    stage.goes("alice", "ss2", 79);
    stage.goes("ss2", "bob", 80);
    stage.ends();
}

/// The gateway of the flow is a proxy here: it leaves the bodies alone. The second proxy stays in the
/// way of the dialog, as ours do, and the RFC's does not: what goes right between the gateway and Bob
/// there takes one more hop.
#[test]
fn section_3_5_session_through_a_sip_alg() {
    let mut stage = Stage::new("udp")
        .with("alg1", &[ATLANTA], Policy::default())
        .with("ss2", &[BILOXI], Policy::default())
        .with_bob("ss2", BILOXI, "<sip:bob@192.0.2.201>");
    stage.goes("alice", "alg1", 81);
    stage.goes("alg1", "alice", 83);
    stage.hop("alg1", "ss2", 81);
    stage.goes("ss2", "alg1", 85);
    stage.hop("ss2", "bob", 81);
    for place in [86, 89] {
        stage.goes("bob", "ss2", place);
        stage.hop("ss2", "alg1", place);
        stage.hop("alg1", "alice", place);
    }
    for place in [92, 94] {
        stage.goes("alice", "alg1", place);
        stage.hop("alg1", "ss2", place);
        stage.hop("ss2", "bob", place);
    }
    stage.goes("bob", "ss2", 96);
    stage.hop("ss2", "alg1", 96);
    stage.hop("alg1", "alice", 96);
    stage.ends();
}

#[test]
fn section_3_6_session_via_redirect_and_proxy_servers() {
    let redirecting = Policy {
        forwarding: ForwardingPolicy {
            mode: Mode::Redirect,
            ..ForwardingPolicy::default()
        },
        ..Policy::default()
    };
    let mut first = Stage::new("udp")
        .with("ss2", &[BILOXI], redirecting)
        .with_bob("ss2", BILOXI, "<sip:bob@chicago.example.com;transport=tcp>");
    first.goes("alice", "ss2", 98);
    first.goes("ss2", "alice", 99);
    first.goes("alice", "ss2", 100);
    first.ends();

    let mut stage = Stage::new("tcp")
        .with("ss3", &[CHICAGO], Policy::default())
        .with_bob("ss3", CHICAGO, "<sip:bob@192.0.2.100;transport=tcp>");
    let bob = "bob abroad";
    stage.goes("alice", "ss3", 101);
    stage.goes("ss3", bob, 102);
    stage.goes("ss3", "alice", 103);
    stage.goes(bob, "ss3", 104);
    stage.goes("ss3", "alice", 105);
    stage.goes(bob, "ss3", 106);
    stage.goes("ss3", "alice", 107);
    stage.goes("alice", "ss3", 108);
    stage.goes("ss3", bob, 109);
    stage.goes(bob, "ss3", 110);
    stage.goes("ss3", "alice", 111);
    stage.goes("alice", "ss3", 112);
    stage.goes("ss3", bob, 113);
    stage.ends();
}

/// The RFC's proxy leaves the dialog after its first transaction; ours stays, so that the re-INVITE
/// from Bob's new address and all that follows takes one more hop.
#[test]
fn section_3_7_session_with_re_invite() {
    let mut stage = Stage::new("udp")
        .with("ss2", &[BILOXI], Policy::default())
        .with_bob("ss2", BILOXI, "<sip:bob@192.0.2.201>");
    stage.goes("alice", "ss2", 114);
    stage.hop("ss2", "bob", 114);
    stage.goes("ss2", "alice", 116);
    stage.goes("bob", "ss2", 117);
    stage.hop("ss2", "alice", 117);
    stage.goes("bob", "ss2", 119);
    stage.hop("ss2", "alice", 119);
    stage.goes("alice", "ss2", 121);
    stage.hop("ss2", "bob", 121);
    // What he knows comes along.
    let known = stage.users.remove("bob").expect("bob");
    stage.users.insert("bob abroad", known);
    stage.goes("bob abroad", "ss2", 122);
    stage.hop("ss2", "alice", 122);
    stage.goes("alice", "ss2", 123);
    stage.hop("ss2", "bob abroad", 123);
    stage.goes("bob abroad", "ss2", 124);
    stage.hop("ss2", "alice", 124);
    stage.goes("alice", "ss2", 125);
    stage.hop("ss2", "bob abroad", 125);
    stage.goes("bob abroad", "ss2", 126);
    stage.hop("ss2", "alice", 126);
    stage.ends();
}

/// An INVITE on its way to Bob, which the proxies have answered 100.
fn invite_reaches_bob(transport: &'static str, first: usize) -> Stage {
    let mut stage = trapezoid(transport, false);
    stage.goes("alice", "ss1", first);
    stage.goes("ss1", "ss2", first + 1);
    stage.goes("ss1", "alice", first + 2);
    stage.goes("ss2", "bob", first + 3);
    stage.goes("ss2", "ss1", first + 4);
    stage
}

#[test]
fn section_3_8_unsuccessful_no_answer() {
    let mut stage = invite_reaches_bob("udp", 127);
    stage.goes("bob", "ss2", 132);
    stage.goes("ss2", "ss1", 133);
    stage.goes("ss1", "alice", 134);
    stage.goes("alice", "ss1", 135);
    stage.goes("ss1", "alice", 136);
    stage.goes("ss1", "ss2", 137);
    stage.goes("ss2", "ss1", 138);
    stage.goes("ss2", "bob", 139);
    stage.goes("bob", "ss2", 140);
    stage.goes("bob", "ss2", 141);
    stage.goes("ss2", "bob", 142);
    stage.goes("ss2", "ss1", 143);
    // In the RFC it has the Via of the second proxy.
    stage.hop("ss1", "ss2", 144);
    stage.goes("ss1", "alice", 145);
    stage.goes("alice", "ss1", 146);
    stage.ends();
}

/// The file has not got the RFC's three 486 responses, whose status lines have two spaces.
#[test]
fn section_3_9_unsuccessful_busy() {
    let mut stage = invite_reaches_bob("tcp", 147);
    stage.goes_as("bob", "ss2", 172, 486);
    stage.goes("ss2", "bob", 152);
    stage.goes_as("ss2", "ss1", 174, 486);
    stage.goes("ss1", "ss2", 153);
    stage.goes_as("ss1", "alice", 176, 486);
    stage.goes("alice", "ss1", 154);
    stage.ends();
}

/// Bob's phone is off. The RFC's second proxy gives a status of its own, 480; by RFC 3261 section 16.7
/// step 6 it is a 408.
#[test]
fn section_3_10_unsuccessful_no_response_from_user_agent() {
    let mut stage = invite_reaches_bob("udp", 155);
    stage.passes_at("ss2", Duration::from_millis(31_900));
    // F6 to F11: six times again.
    for _ in 0..6 {
        stage.goes("ss2", "bob", 158);
    }
    stage.passes_at("ss2", Duration::from_millis(200));
    stage.goes_as("ss2", "ss1", 160, 408);
    stage.goes("ss1", "ss2", 161);
    stage.goes_as("ss1", "alice", 162, 408);
    stage.goes("alice", "ss1", 163);
    stage.ends();
}

#[test]
fn section_3_11_unsuccessful_temporarily_unavailable() {
    let mut stage = invite_reaches_bob("udp", 164);
    stage.goes("bob", "ss2", 169);
    stage.goes("ss2", "ss1", 170);
    stage.goes("ss1", "alice", 171);
    stage.goes("bob", "ss2", 172);
    stage.goes("ss2", "bob", 173);
    stage.goes("ss2", "ss1", 174);
    stage.goes("ss1", "ss2", 175);
    stage.goes("ss1", "alice", 176);
    stage.goes("alice", "ss1", 177);
    stage.ends();
}
