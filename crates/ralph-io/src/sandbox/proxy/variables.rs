//! The environment variables by which programs inside find the proxy.
//!
//! Not here: the rest of a child's environment.

use std::path::Path;

/// The port of the proxy inside a network namespace or container. It is above the ports that Linux
/// gives to clients (up to 60999), and no known service has it: the usual port of a proxy, 3128,
/// stays free for the project's own servers and for a forwarded proxy of the user.
pub const PORT_INSIDE: u16 = 61128;

/// Returns the variables that make programs use the proxy on this port of their loopback.
///
/// `ralph` is the path of this program inside, which git needs for ssh.
pub fn list_proxy_variables(port: u16, ralph: &Path) -> Vec<(String, String)> {
    let proxy = format!("http://127.0.0.1:{port}");
    let mut variables: Vec<(String, String)> = [
        "HTTP_PROXY",
        "HTTPS_PROXY",
        "ALL_PROXY",
        "http_proxy",
        "https_proxy",
        "all_proxy",
        "npm_config_proxy",
        "npm_config_https_proxy",
    ]
    .into_iter()
    .map(|name| (name.to_owned(), proxy.clone()))
    .collect();
    // The child's own servers, and ports that are forwarded, are reached directly.
    for name in ["NO_PROXY", "no_proxy", "npm_config_noproxy"] {
        variables.push((name.to_owned(), "localhost,127.0.0.1,::1".to_owned()));
    }
    // Node reads the other variables only with this one.
    variables.push(("NODE_USE_ENV_PROXY".to_owned(), "1".to_owned()));
    variables.push(("GIT_SSH_COMMAND".to_owned(), build_ssh_command(ralph)));
    variables
}

/// Returns an ssh command that uses the proxy. Two shells and ssh itself parse the text.
fn build_ssh_command(ralph: &Path) -> String {
    let path = ralph.to_str().filter(|path| !path.contains(['\'', '"', '$', '`', '\\', '%', '!']));
    let program = path.unwrap_or("ralph");
    format!("ssh -o 'ProxyCommand=\"{program}\" __connect %h %p'")
}

#[cfg(test)]
mod tests {
    use expect_test::expect;

    use super::*;

    #[test]
    fn variables_make_common_programs_use_the_proxy() {
        let variables = list_proxy_variables(3128, Path::new("/opt/my tools/ralph"));
        let lines: Vec<String> =
            variables.into_iter().map(|(name, value)| format!("{name}={value}\n")).collect();
        expect![[r#"
            HTTP_PROXY=http://127.0.0.1:3128
            HTTPS_PROXY=http://127.0.0.1:3128
            ALL_PROXY=http://127.0.0.1:3128
            http_proxy=http://127.0.0.1:3128
            https_proxy=http://127.0.0.1:3128
            all_proxy=http://127.0.0.1:3128
            npm_config_proxy=http://127.0.0.1:3128
            npm_config_https_proxy=http://127.0.0.1:3128
            NO_PROXY=localhost,127.0.0.1,::1
            no_proxy=localhost,127.0.0.1,::1
            npm_config_noproxy=localhost,127.0.0.1,::1
            NODE_USE_ENV_PROXY=1
            GIT_SSH_COMMAND=ssh -o 'ProxyCommand="/opt/my tools/ralph" __connect %h %p'
        "#]]
        .assert_eq(&lines.concat());
    }
}
