//! Without root, and without what it takes.

use std::process::{Command, Output};

use test_support::{require_command, say_skipped};

use super::{Networks, program};

/// Runs a script in a mount namespace of its own, where `/dev/net` is as the script makes it.
fn in_own_mounts(networks: &Networks, script: &str) -> Option<Output> {
    for (command, package) in [("unshare", "util-linux"), ("setpriv", "util-linux")] {
        require_command(command, package)?;
    }
    let can = Command::new("unshare").args(["-m", "true"]).output();
    if !can.is_ok_and(|output| output.status.success()) {
        say_skipped("no mount namespace: this is for root");
        return None;
    }
    let output = Command::new("unshare")
        .args(["-m", "sh", "-ec", script])
        .env("TANDEM", program())
        .env("XDG_RUNTIME_DIR", networks.path())
        .output()
        .expect("unshare runs");
    Some(output)
}

#[test]
fn somebody_without_privileges_has_networks_too() {
    let Some(networks) = Networks::none() else {
        return;
    };
    if require_command("ping", "iputils-ping").is_none() {
        return;
    }
    // As most systems have it: whoever wants to may open the device.
    let script = r#"
        mount -t tmpfs none /dev/net
        mknod /dev/net/tun c 10 200
        chmod 666 /dev/net/tun
        cp "$TANDEM" "$XDG_RUNTIME_DIR/program"
        chown -R 65534:65534 "$XDG_RUNTIME_DIR"
        cat > "$XDG_RUNTIME_DIR/script" <<'END'
unshare -Ur true || exit 77
t="$XDG_RUNTIME_DIR/program net"
$t up multihomed && $t exec client -- ping -c 1 -W 10 server && $t rule add client server --delay 30ms &&
  $t exec client -- sh -c 'exit 9'
test $? = 9 && $t down
END
        setpriv --reuid=65534 --regid=65534 --clear-groups sh "$XDG_RUNTIME_DIR/script"
    "#;
    let Some(output) = in_own_mounts(&networks, script) else {
        return;
    };
    if output.status.code() == Some(77) {
        say_skipped("the kernel allows no user namespaces to everybody");
        return;
    }
    let text = String::from_utf8_lossy(&output.stdout);
    let error = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "{text}{error}");
    assert!(text.contains("down: multihomed"), "{text}");
}

#[test]
fn what_is_missing_is_said() {
    let Some(networks) = Networks::none() else {
        return;
    };
    let without_device = "mount -t tmpfs none /dev/net; \"$TANDEM\" net up two-hosts";
    let Some(output) = in_own_mounts(&networks, without_device) else {
        return;
    };
    let error = String::from_utf8_lossy(&output.stderr);
    assert!(
        !output.status.success() && error.contains("modprobe tun"),
        "{error}"
    );

    let without_right = r#"
        mount -t tmpfs none /dev/net; mknod /dev/net/tun c 10 200; chmod 600 /dev/net/tun
        cp "$TANDEM" "$XDG_RUNTIME_DIR/program"
        chown -R 65534:65534 "$XDG_RUNTIME_DIR"
        exec setpriv --reuid=65534 --regid=65534 --clear-groups "$XDG_RUNTIME_DIR/program" net up two-hosts
    "#;
    let Some(output) = in_own_mounts(&networks, without_right) else {
        return;
    };
    let error = String::from_utf8_lossy(&output.stderr);
    let advice = ["chmod 666 /dev/net/tun", "user namespaces"];
    assert!(
        !output.status.success() && advice.iter().any(|one| error.contains(one)),
        "{error}"
    );
}

#[test]
fn networks_need_no_other_program() {
    let Some(networks) = Networks::none() else {
        return;
    };
    let script = r#"
        for ip in /usr/sbin/ip /usr/bin/ip /sbin/ip /bin/ip; do
          test ! -e "$ip" || mount --bind /dev/null "$ip"
        done
        "$TANDEM" net up multihomed
        "$TANDEM" net exec client -- cat /proc/net/route
        "$TANDEM" net down
    "#;
    let Some(output) = in_own_mounts(&networks, script) else {
        return;
    };
    let text = String::from_utf8_lossy(&output.stdout);
    let error = String::from_utf8_lossy(&output.stderr);
    if ["namespace", "TUN"].iter().any(|one| error.contains(one)) {
        say_skipped(error.trim());
        return;
    }
    assert!(output.status.success(), "{text}{error}");
    // 10.2.0.0 by the first interface, 10.4.0.0 by the second one.
    for route in ["eth0\t0000020A", "eth1\t0000040A"] {
        assert!(text.contains(route), "{route} in {text}");
    }
}
