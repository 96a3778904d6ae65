//! A real browser for tests: headless Chromium, driven by chromedriver over its protocol.
//!
//! A small client over plain sockets. Not here: what a page should look like.

use std::env;
use std::io::{BufRead as _, BufReader, Read as _, Write as _};
use std::net::TcpStream;
use std::process::{Child, Command, Stdio};
use std::thread;
use std::time::{Duration, Instant};

use serde_json::{Value, json};
use tempfile::TempDir;

/// Nothing in a test takes this long unless it hangs.
const TIMEOUT: Duration = Duration::from_secs(60);

/// A browser with one window. It ends when this value is dropped.
#[derive(Debug)]
pub struct Browser {
    driver: Child,
    port: u16,
    session: String,
    profile: TempDir,
}

impl Browser {
    /// Starts a browser, or returns `None` if none is installed.
    pub fn start_browser() -> Option<Self> {
        let has = |program: &str| {
            let paths = env::var_os("PATH").unwrap_or_default();
            env::split_paths(&paths).any(|directory| directory.join(program).is_file())
        };
        if !has("chromedriver") || !has("chromium") {
            return None;
        }
        let profile = tempfile::tempdir().expect("a temporary directory");
        let mut driver = Command::new("chromedriver")
            .arg("--port=0")
            .env("HOME", profile.path())
            .env("TMPDIR", profile.path())
            .stdout(Stdio::piped())
            .stderr(Stdio::null())
            .spawn()
            .expect("chromedriver starts");
        let mut lines = BufReader::new(driver.stdout.take().expect("a pipe")).lines();
        let port = lines
            .by_ref()
            .map_while(Result::ok)
            .find_map(|line| {
                line.split("successfully on port ").nth(1)?.trim_end_matches('.').parse().ok()
            })
            .expect("it prints its port");
        // Drains the pipe, or chromedriver would block on it.
        thread::spawn(move || lines.for_each(drop));
        let mut browser = Self { driver, port, session: String::new(), profile };
        let data = browser.profile.path().join("data");
        let flags = [
            "--headless".to_owned(),
            "--no-sandbox".to_owned(),
            "--disable-gpu".to_owned(),
            "--disable-quic".to_owned(),
            "--disable-dev-shm-usage".to_owned(),
            "--no-first-run".to_owned(),
            "--disable-background-networking".to_owned(),
            "--disable-component-update".to_owned(),
            "--disable-sync".to_owned(),
            "--hide-scrollbars".to_owned(),
            format!("--user-data-dir={}", data.display()),
        ];
        let wanted = json!({ "capabilities": { "alwaysMatch": {
            "browserName": "chrome",
            "goog:chromeOptions": { "args": flags },
            "goog:loggingPrefs": { "browser": "ALL", "performance": "ALL" },
            "unhandledPromptBehavior": "ignore",
        } } });
        let begun = browser.send_request("POST", "/session", &wanted);
        begun["sessionId"].as_str().expect("a session").clone_into(&mut browser.session);
        Some(browser)
    }

    /// Loads an address.
    pub fn open_url(&self, url: &str) {
        self.send_command("url", &json!({ "url": url }));
    }

    /// Runs a script in the page and returns its result.
    pub fn run_script(&self, script: &str) -> Value {
        self.run_script_with(script, &json!([]))
    }

    /// Runs a script in the page with arguments.
    pub fn run_script_with(&self, script: &str, args: &Value) -> Value {
        self.send_command("execute/sync", &json!({ "script": script, "args": args }))
    }

    /// Runs a script that calls its last argument when it is done.
    pub fn run_async_script(&self, script: &str, args: &Value) -> Value {
        self.send_command("execute/async", &json!({ "script": script, "args": args }))
    }

    /// Returns the value of an expression in the page, as text.
    pub fn evaluate_text(&self, expression: &str) -> String {
        let value = self.run_script(&format!("return String({expression})"));
        value.as_str().unwrap_or_else(|| panic!("{expression} is {value}")).to_owned()
    }

    /// Waits until an expression holds in the page. Between two pages evaluating it may fail.
    #[track_caller]
    pub fn wait_for(&self, expression: &str) {
        let deadline = Instant::now() + TIMEOUT;
        let path = format!("/session/{}/execute/sync", self.session);
        let body = json!({ "script": format!("return Boolean({expression})"), "args": [] });
        loop {
            let (status, answer) =
                self.exchange_http("POST", &path, &body).expect("the driver answers");
            let value = &answer["value"];
            if status == 200 && *value == Value::Bool(true) {
                return;
            }
            if Instant::now() > deadline {
                let page = self.evaluate_text("document.body?.innerText");
                panic!("it never came to this: {expression}\n{value}\n{page}");
            }
            thread::sleep(Duration::from_millis(20));
        }
    }

    /// Clicks the element that a selector finds, as a user would.
    #[track_caller]
    pub fn click_element(&self, selector: &str) {
        let id = self.find_element(selector);
        self.send_command(&format!("element/{id}/click"), &json!({}));
    }

    /// Types into the element that a selector finds.
    #[track_caller]
    pub fn type_text(&self, selector: &str, text: &str) {
        let id = self.find_element(selector);
        self.send_command(&format!("element/{id}/value"), &json!({ "text": text }));
    }

    fn find_element(&self, selector: &str) -> String {
        let found =
            self.send_command("element", &json!({ "using": "css selector", "value": selector }));
        let id = found.as_object().and_then(|it| it.values().next()).and_then(Value::as_str);
        id.unwrap_or_else(|| panic!("there is no {selector}")).to_owned()
    }

    /// Accepts a dialog of the page.
    pub fn accept_dialog(&self) {
        self.send_command("alert/accept", &json!({}));
    }

    /// Resizes the window; a narrow one is shown as on a phone.
    pub fn resize_window(&self, width: u32, height: u32) {
        let size =
            json!({ "width": width, "height": height, "deviceScaleFactor": 1, "mobile": false });
        self.send_devtools_command("Emulation.setDeviceMetricsOverride", &size);
    }

    /// Sets the preferred color scheme to light or dark.
    pub fn set_color_scheme(&self, scheme: &str) {
        let features = json!([
            { "name": "prefers-color-scheme", "value": scheme },
            { "name": "prefers-reduced-motion", "value": "reduce" },
        ]);
        self.send_devtools_command("Emulation.setEmulatedMedia", &json!({ "features": features }));
    }

    /// Returns a screenshot as PNG.
    pub fn take_screenshot(&self) -> Vec<u8> {
        let taken =
            self.send_devtools_command("Page.captureScreenshot", &json!({ "format": "png" }));
        decode_base64(taken["data"].as_str().expect("a picture"))
    }

    /// Sends a command of the developer tools.
    pub fn send_devtools_command(&self, name: &str, params: &Value) -> Value {
        self.send_command("goog/cdp/execute", &json!({ "cmd": name, "params": params }))
    }

    /// Returns the console messages since the last call.
    pub fn read_console(&self) -> Vec<String> {
        self.read_log("browser")
    }

    /// Returns the URLs that were requested since the last call.
    pub fn read_requested_urls(&self) -> Vec<String> {
        let entry = self.read_log("performance");
        let entry = entry.iter().filter_map(|text| serde_json::from_str::<Value>(text).ok());
        entry
            .filter(|entry| entry["message"]["method"] == "Network.requestWillBeSent")
            .filter_map(|entry| {
                Some(entry["message"]["params"]["request"]["url"].as_str()?.to_owned())
            })
            .collect()
    }

    fn read_log(&self, kind: &str) -> Vec<String> {
        let entries = self.send_command("se/log", &json!({ "type": kind }));
        let entries = entries.as_array().cloned().unwrap_or_default();
        entries.iter().filter_map(|entry| Some(entry["message"].as_str()?.to_owned())).collect()
    }

    fn send_command(&self, name: &str, body: &Value) -> Value {
        self.send_request("POST", &format!("/session/{}/{name}", self.session), body)
    }

    /// Sends a request to the driver, and fails the test with the driver's error if it refuses.
    #[track_caller]
    fn send_request(&self, method: &str, path: &str, body: &Value) -> Value {
        let (status, answer) = self.exchange_http(method, path, body).expect("the driver answers");
        assert_eq!(status, 200, "{path}: {}", answer["value"]["message"]);
        answer["value"].clone()
    }

    fn exchange_http(
        &self,
        method: &str,
        path: &str,
        body: &Value,
    ) -> std::io::Result<(u16, Value)> {
        let body = body.to_string();
        let mut stream = TcpStream::connect(("127.0.0.1", self.port))?;
        stream.set_read_timeout(Some(TIMEOUT * 2))?;
        write!(
            stream,
            "{method} {path} HTTP/1.1\r\nHost: 127.0.0.1:{}\r\nContent-Type: application/json\r\n\
             Content-Length: {}\r\nConnection: close\r\n\r\n{body}",
            self.port,
            body.len()
        )?;
        let mut reader = BufReader::new(stream);
        let (mut status, mut length) = (0, 0);
        loop {
            let mut line = String::new();
            reader.read_line(&mut line)?;
            let line = line.trim();
            if line.is_empty() {
                break;
            }
            if line.starts_with("HTTP/") {
                status = line.split(' ').nth(1).and_then(|it| it.parse().ok()).unwrap_or(0);
            } else if let Some(value) = line.to_ascii_lowercase().strip_prefix("content-length:") {
                length = value.trim().parse().unwrap_or(0);
            }
        }
        let mut bytes = vec![0; length];
        reader.read_exact(&mut bytes)?;
        Ok((status, serde_json::from_slice(&bytes).unwrap_or_default()))
    }
}

impl Drop for Browser {
    /// Ends the browser, then its driver.
    fn drop(&mut self) {
        if !self.session.is_empty() {
            let _ = self.exchange_http("DELETE", &format!("/session/{}", self.session), &json!({}));
        }
        let _ = self.driver.kill();
        let _ = self.driver.wait();
    }
}

/// Decodes base64 as the protocol writes it.
fn decode_base64(text: &str) -> Vec<u8> {
    let value = |letter: u8| match letter {
        b'A'..=b'Z' => Some(letter - b'A'),
        b'a'..=b'z' => Some(letter - b'a' + 26),
        b'0'..=b'9' => Some(letter - b'0' + 52),
        b'+' => Some(62),
        b'/' => Some(63),
        _ => None,
    };
    let letters: Vec<u8> = text.bytes().filter_map(value).collect();
    let mut bytes = Vec::with_capacity(letters.len() * 3 / 4);
    for group in letters.chunks(4) {
        let bits = group.iter().fold(0_u32, |bits, letter| bits << 6 | u32::from(*letter));
        let bits = bits << (6 * (4 - group.len()));
        bytes.extend_from_slice(&bits.to_be_bytes()[1..group.len()]);
    }
    bytes
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn base64_of_any_length_is_read() {
        for (text, expect) in
            [("", ""), ("YQ==", "a"), ("YWI=", "ab"), ("YWJj", "abc"), ("YWJjZA==", "abcd")]
        {
            assert_eq!(decode_base64(text), expect.as_bytes());
        }
    }
}
