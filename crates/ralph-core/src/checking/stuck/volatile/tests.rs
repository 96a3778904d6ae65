//! Tests of what is removed from a line and what is kept.

use super::*;

fn wash(line: &str) -> String {
    VolatileScrubber::new("").scrub_line(line).to_owned()
}

/// Lines of the same failure in two runs.
#[test]
fn volatile_parts_are_removed() {
    for (one, two) in [
        ("finished in 0.02s", "finished in 12.71s"),
        ("done (3 ms)", "done (1.5 seconds)"),
        ("took 1m3s", "took 59.9s"),
        ("[12:01:44.123] INFO ready", "[23:59:59.001] INFO ready"),
        ("2026-11-15T05:45:26.038Z boom", "2027-01-02T15:00:00.001Z boom"),
        ("2026-11-15 05:45:26 +0100 boom", "2027-01-02 15:00:00 +0200 boom"),
        ("at 0x7ffd12345678", "at 0x55c339e91b60"),
        ("main.main() +0x1d", "main.main() +0x2e"),
        ("main.run(0xc0000969c0?)", "main.run(0x0?)"),
        ("Object@140c9f39 is odd", "Object@957e06 is odd"),
        ("id 9b2f9f0e-6a3e-4f0a-9d4e-0b8c5b1f2a3d", "id 00000000-6a3e-4f0a-9d4e-0b8c5b1f2a3d"),
        ("open /tmp/tmpab12cd34", "open /tmp/other/sample-1sQ4Nu"),
        ("open /tmp/tmpab12/data.json", "open /var/folders/xy/T/tmp99/data.json"),
        ("error in /home/one/app/src/lib.rs", "error in /srv/two/app2/src/lib.rs"),
        ("  File \"/a/b/x/t.py\", line 12, in f", "  File \"/c/b/x/t.py\", line 14, in f"),
        ("panicked at src/lib.rs:10:5:", "panicked at src/lib.rs:12:9:"),
        ("at f (x/main.js:10:15)", "at f (x/main.js:11:2)"),
        ("src/main.ts(3,7): error TS1", "src/main.ts(31,1): error TS1"),
        ("at Foo.bar(Foo.java:12)", "at Foo.bar(Foo.java:13)"),
        ("12 | let x = y;", "7 | let x = y;"),
        ("pid 123: boom", "pid 4567: boom"),
        ("(node:12345) Warning", "(node:777) Warning"),
        ("sshd[1234]: boom", "sshd[99123]: boom"),
        ("==1234==ERROR", "==99==ERROR".replace("99", "9987").as_str()),
        ("connect 127.0.0.1:38211 refused", "connect 127.0.0.1:45001 refused"),
        ("GET http://localhost:38211/x", "GET http://localhost:45001/x"),
        ("listening on port 38211", "listening on port 45001"),
        ("thread 'main' (24481) panicked", "thread 'main' (991) panicked"),
        ("[pool-1-thread-2] boom", "[pool-3-thread-11] boom"),
        ("goroutine 20 [running]:", "goroutine 7 [running]:"),
        ("Random seed: 4140021984", "Random seed: 17"),
        ("seed=-297485423051905846", "seed=3452233060021412509"),
        ("FAIL [   0.156s] (1/6) sample a", "FAIL [   1.284s] (4/6) sample a"),
        ("not ok 3 - adds", "not ok 17 - adds"),
        ("3/10 Test #3: name ...***Failed 0.01 sec", "7/10 Test #7: name ...***Failed 1.20 sec"),
        ("deps/sample-e6daf73c296d6df0 x", "deps/sample-0123456789abcdef x"),
        ("===== 1 failed in 0.12s =====", "======= 1 failed in 10.12s ========"),
    ] {
        assert_eq!(wash(one), wash(two), "{one}");
    }
}

/// Lines of different failures.
#[test]
fn parts_that_identify_a_failure_are_kept() {
    for (one, two) in [
        ("left: 1", "left: 2"),
        ("expected 3, got 4", "expected 3, got 5"),
        ("Expected: 401, Received: 200", "Expected: 401, Received: 500"),
        ("  left: 5s", "  left: 6s"),
        ("assert 1.5 == 2.5", "assert 1.5 == 3.5"),
        ("expected 2024-02-29", "expected 2024-03-01"),
        ("expected 0xdeadbeef", "expected 0xcafebabe"),
        ("expected 1794721526037", "expected 1794721526038"),
        ("status: 404", "status: 500"),
        ("exit code 1", "exit code 2"),
        ("error[E0425]: not found", "error[E0433]: not found"),
        ("error TS2304: x", "error TS2305: x"),
        ("--> src/a.rs:1:2", "--> src/b.rs:1:2"),
        ("/home/x/app/src/a.rs", "/home/x/app/src/b.rs"),
        ("/tmp/a1/test_a.py", "/tmp/a1/test_b.py"),
        ("test_x[1] failed", "test_x[2] failed"),
        ("self.assertEqual(1 + 2, 4)", "self.assertEqual(1 + 2, 5)"),
        ("2 failed, 3 passed", "1 failed, 3 passed"),
        ("coverage 71% is too low", "coverage 79% is too low"),
        ("cannot find `a1`", "cannot find `a2`"),
        ("expected line 3", "expected line 4"),
        ("version 1.2.3", "version 1.2.4"),
        ("a === b", "a !== b"),
    ] {
        assert_ne!(wash(one), wash(two), "{one}");
    }
}
