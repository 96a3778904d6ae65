//! Writers that fail, hang, or trickle.

use std::sync::mpsc::{Receiver, Sender, channel};

use super::*;

/// Long enough that only a hang reaches it.
const GENEROUS: Duration = Duration::from_secs(20);

#[derive(Debug, Clone, Default)]
struct Sheet(Arc<Mutex<Vec<u8>>>);

impl Sheet {
    fn text(&self) -> String {
        String::from_utf8(self.0.lock().expect("no panic").clone()).expect("whole characters")
    }
}

impl Write for Sheet {
    fn write(&mut self, piece: &[u8]) -> io::Result<usize> {
        self.0.lock().expect("no panic").extend_from_slice(piece);
        Ok(piece.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

/// A terminal that reports when it is written to, and accepts the piece when the test allows it.
struct Stopped {
    asked: Sender<()>,
    go: Receiver<()>,
    sheet: Sheet,
}

impl Write for Stopped {
    fn write(&mut self, piece: &[u8]) -> io::Result<usize> {
        let _ = self.asked.send(());
        let _ = self.go.recv();
        self.sheet.write(piece)
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

struct Fails(io::ErrorKind);

impl Write for Fails {
    fn write(&mut self, _: &[u8]) -> io::Result<usize> {
        Err(self.0.into())
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

#[test]
fn the_first_error_is_kept_and_ignored() {
    let mut writer = IgnoreErrors::new(Fails(io::ErrorKind::BrokenPipe));
    writer.write_piece(b"one");
    writer.write_piece(b"two");
    assert_eq!(writer.first_error().map(io::Error::kind), Some(io::ErrorKind::BrokenPipe));
    let mut fine = IgnoreErrors::new(Vec::new());
    fine.write_piece(b"one");
    assert!(fine.first_error().is_none());
}

#[test]
fn everything_arrives_in_order_where_there_is_room() {
    let sheet = Sheet::default();
    let mut writer = NonBlocking::start(sheet.clone()).expect("a thread");
    let lines: Vec<String> = (0..1_000).map(|number| format!("line {number}\n")).collect();
    for line in &lines {
        writer.write_all(line.as_bytes()).expect("never fails");
    }
    writer.write_all(b"half").expect("never fails");
    writer.clone().write_line("Received signal");
    let expect = format!("{}half\nReceived signal\n", lines.concat());
    assert_eq!(writer.wait_until_written(GENEROUS), Losses { lines: 0, error: None });
    assert_eq!(sheet.text(), expect);
}

#[test]
fn a_terminal_that_does_not_read_is_not_waited_for() {
    let (asked, was_asked) = channel();
    let (go, may_go) = channel();
    let sheet = Sheet::default();
    let mut writer =
        NonBlocking::start(Stopped { asked, go: may_go, sheet: sheet.clone() }).expect("a thread");
    writer.write_all(b"first, and half a line").expect("never fails");
    was_asked.recv().expect("the thread hangs in its write now");

    let line = format!("{}\n", "x".repeat(1023));
    for _ in 0..3_000 {
        writer.write_all(line.as_bytes()).expect("never fails");
    }
    let losses = writer.wait_until_written(Duration::ZERO);
    assert_eq!(losses, Losses { lines: 3_000, error: None });

    drop(go);
    writer.wait_until_written(GENEROUS);
    writer.write_all(b"last\n").expect("never fails");
    assert_eq!(writer.wait_until_written(GENEROUS), Losses { lines: 1_976, error: None });
    let text = sheet.text();
    assert!(text.starts_with("first, and half a linexxx"));
    assert!(text.ends_with("x\n... 1 976 lines not shown\nlast\n"), "{}", &text[text.len() - 60..]);
}

#[test]
fn a_lost_piece_of_a_line_is_reported_too() {
    let mut queue = PieceQueue::default();
    let half = vec![b'x'; QUEUE_BYTES];
    // A single piece is accepted, whatever its size.
    queue.push_piece([half.clone(), half.clone()].concat());
    queue.push_piece(half);
    queue.report_loss();
    queue.report_loss();
    let pieces: Vec<_> = queue.pieces.into_iter().map(|piece| piece.bytes).collect();
    assert_eq!(pieces.len(), 2);
    assert_eq!(pieces[1], b"\n... part of a line not shown\n");
}

#[test]
fn a_closed_pipe_is_reported_at_the_end_only() {
    let mut writer = NonBlocking::start(Fails(io::ErrorKind::BrokenPipe)).expect("a thread");
    writer.write_all(b"one\n").expect("never fails");
    let losses = writer.wait_until_written(GENEROUS);
    assert_eq!(losses, Losses { lines: 0, error: Some(io::ErrorKind::BrokenPipe) });
}

/// Takes one byte at a time, and is full before each.
struct Trickles {
    sheet: Sheet,
    is_full: bool,
}

impl Write for Trickles {
    fn write(&mut self, piece: &[u8]) -> io::Result<usize> {
        self.is_full = !self.is_full;
        if self.is_full {
            return Err(io::ErrorKind::WouldBlock.into());
        }
        self.sheet.write(&piece[..1])
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

#[test]
fn a_terminal_set_to_non_blocking_gets_every_byte() {
    let sheet = Sheet::default();
    let mut writer =
        NonBlocking::start(Trickles { sheet: sheet.clone(), is_full: false }).expect("a thread");
    writer.write_all("ünï\n".as_bytes()).expect("never fails");
    assert_eq!(writer.wait_until_written(GENEROUS), Losses { lines: 0, error: None });
    assert_eq!(sheet.text(), "ünï\n");
}

#[test]
fn numbers_are_grouped() {
    let shown = [0, 999, 1_234, 12_345, 1_234_567].map(group_thousands);
    assert_eq!(shown, ["0", "999", "1 234", "12 345", "1 234 567"]);
}

#[test]
fn a_separate_line_replaces_a_temporary_one_and_follows_an_open_one() {
    let sheet = Sheet::default();
    let mut writer = NonBlocking::start(sheet.clone()).expect("a thread");
    writer.write_all(b"busy\r").expect("queued");
    writer.write_line("stopping");
    writer.write_all(b"open").expect("queued");
    writer.write_line("ending");
    assert_eq!(writer.wait_until_written(GENEROUS).lines, 0);
    assert_eq!(sheet.text(), "busy\r\r\u{1b}[2Kstopping\nopen\nending\n");
}
