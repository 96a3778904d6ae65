//! The servers that package managers fetch from, as the user's and the project's own configuration
//! names them.
//!
//! There is no list of servers here: it would be outdated, and wrong behind a company's mirror. Not
//! here: reading files, variables and programs.

use super::hosts::format_url_pattern;

/// A package manager and where its servers are configured.
#[derive(Debug)]
pub struct PackageTool {
    pub name: &'static str,
    /// The files of a project that uses it.
    pub manifests: &'static [&'static str],
    /// Its configuration in a project.
    pub project_files: &'static [&'static str],
    /// Its configuration in the home directory, or elsewhere as an absolute path.
    pub user_files: &'static [&'static str],
    pub variables: &'static [&'static str],
    /// The command that prints its servers, if there is one.
    pub question: &'static [&'static str],
    form: ConfigForm,
    /// The keys whose values are servers.
    keys: &'static [&'static str],
}

/// How a configuration is written.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum ConfigForm {
    /// A key and a value in a line, below headings of sections.
    Lines,
    /// Elements that contain `<url>`.
    Xml,
}

/// The package managers, those of one language together.
pub const PACKAGE_TOOLS: [PackageTool; 5] = [
    PackageTool {
        name: "npm",
        manifests: &["package.json"],
        project_files: &[".npmrc", ".yarnrc.yml"],
        user_files: &[".npmrc", ".yarnrc.yml"],
        variables: &["NPM_CONFIG_REGISTRY", "npm_config_registry", "YARN_NPM_REGISTRY_SERVER"],
        question: &["npm", "config", "get", "registry"],
        form: ConfigForm::Lines,
        keys: &["registry", "npmRegistryServer"],
    },
    PackageTool {
        name: "pip",
        manifests: &["pyproject.toml", "requirements.txt", "setup.py"],
        project_files: &["pyproject.toml", "uv.toml"],
        user_files: &[
            ".config/pip/pip.conf",
            ".pip/pip.conf",
            ".config/uv/uv.toml",
            "/etc/pip.conf",
        ],
        variables: &[
            "PIP_INDEX_URL",
            "PIP_EXTRA_INDEX_URL",
            "UV_DEFAULT_INDEX",
            "UV_INDEX",
            "UV_INDEX_URL",
            "UV_EXTRA_INDEX_URL",
        ],
        question: &[],
        form: ConfigForm::Lines,
        keys: &["index-url", "extra-index-url", "default-index", "index"],
    },
    PackageTool {
        name: "cargo",
        manifests: &["Cargo.toml"],
        project_files: &[".cargo/config.toml"],
        user_files: &[".cargo/config.toml", ".cargo/config"],
        variables: &[],
        question: &[],
        form: ConfigForm::Lines,
        keys: &["registry", "index"],
    },
    PackageTool {
        name: "go",
        manifests: &["go.mod"],
        project_files: &[],
        user_files: &[],
        variables: &["GOPROXY", "GOSUMDB"],
        question: &["go", "env", "GOPROXY", "GOSUMDB"],
        form: ConfigForm::Lines,
        keys: &[],
    },
    PackageTool {
        name: "maven",
        manifests: &["pom.xml", "build.gradle", "build.gradle.kts"],
        project_files: &["pom.xml"],
        user_files: &[".m2/settings.xml"],
        variables: &[],
        question: &[],
        form: ConfigForm::Xml,
        keys: &["mirror", "repository", "pluginRepository"],
    },
];

impl PackageTool {
    /// Returns the hosts that a configuration file names, as patterns with ports.
    pub fn find_hosts(&self, text: &str) -> Vec<String> {
        match self.form {
            ConfigForm::Lines => self.find_in_lines(text),
            ConfigForm::Xml => self.find_in_elements(text),
        }
    }

    fn find_in_lines(&self, text: &str) -> Vec<String> {
        let (mut hosts, mut section, mut is_server) = (Vec::new(), "", false);
        for line in text.lines() {
            let content = line.trim();
            if content.is_empty() || content.starts_with(['#', ';']) {
                continue;
            }
            if content.starts_with('[') && !content.contains("://") {
                (section, is_server) = (content, false);
                continue;
            }
            // An indented line continues the value before it.
            let is_continued = line.starts_with([' ', '\t']) && content.contains("://");
            if !(is_continued && is_server) {
                let end = content.find(['=', ' ']).or_else(|| content.find(": "));
                let key = content[..end.unwrap_or(0)].trim_end_matches(':').trim_matches('"');
                let key = key.rsplit(':').next().unwrap_or(key);
                let is_url =
                    key == "url" && ["index", "source"].iter().any(|it| section.contains(it));
                is_server = is_url || self.keys.contains(&key);
            }
            if is_server {
                hosts.extend(find_urls(content));
            }
        }
        hosts
    }

    fn find_in_elements(&self, text: &str) -> Vec<String> {
        let mut hosts = Vec::new();
        for key in self.keys {
            let (start, end) = (format!("<{key}>"), format!("</{key}>"));
            for part in text.split(&start).skip(1) {
                let element = part.split(&end).next().unwrap_or_default();
                let url = element.split("<url>").nth(1).and_then(|it| it.split("</url>").next());
                hosts.extend(url.into_iter().flat_map(find_urls));
            }
        }
        hosts
    }
}

/// Returns the hosts in the value of a variable or the answer of a program: of URLs, and names
/// alone.
pub fn find_answer_hosts(text: &str) -> Vec<String> {
    let words = text.split(|it: char| it.is_whitespace() || it == ',' || it == '|');
    let is_name = |it: &&str| {
        it.contains('.')
            && !it.starts_with('.')
            && it.chars().all(|it| it.is_ascii_alphanumeric() || it == '.' || it == '-')
    };
    let names = words.filter(is_name).filter_map(|it| format_url_pattern(&format!("https://{it}")));
    find_urls(text).into_iter().chain(names).collect()
}

/// Returns whether a text has a URL with a login.
pub fn has_login(text: &str) -> bool {
    text.split("://").skip(1).any(|rest| {
        rest.split(['/', '"', '\'', ' ', ','])
            .next()
            .is_some_and(|authority| authority.contains('@'))
    })
}

fn find_urls(text: &str) -> Vec<String> {
    let starts = text.match_indices("http").map(|(at, _)| &text[at..]);
    let is_end = |it: char| it.is_whitespace() || "\"'<>,|]}".contains(it);
    let urls = starts.filter_map(|it| it.split(is_end).next());
    // A variable in it is not known here.
    urls.filter(|url| !url.contains('$')).filter_map(format_url_pattern).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[track_caller]
    fn check(name: &str, text: &str, expect: &[&str]) {
        let tool = PACKAGE_TOOLS.iter().find(|it| it.name == name).expect("a tool");
        assert_eq!(tool.find_hosts(text), expect, "{name}: {text}");
    }

    #[test]
    fn servers_are_read_from_the_configuration_of_each_tool() {
        check(
            "npm",
            "# https://comment.example\nregistry=https://npm.example.com/api/\n\
             @own:registry = http://127.0.0.1:4873/\n//npm.example.com/:_authToken=x\n\
             homepage=https://other.example\nregistry=https://${HOST}/\n",
            &["npm.example.com:443", "127.0.0.1:4873"],
        );
        check(
            "npm",
            "npmRegistryServer: \"https://yarn.example.com\"\n",
            &["yarn.example.com:443"],
        );
        check(
            "pip",
            "[global]\nindex-url = https://u:p@pip.example.com/simple\nextra-index-url =\n    \
             https://a.example/simple\n    https://b.example:8443/simple\ntrusted-host = c.example\n",
            &["pip.example.com:443", "a.example:443", "b.example:8443"],
        );
        check(
            "pip",
            "[project.urls]\nurl = \"https://home.example\"\n[[tool.uv.index]]\nname = \"x\"\n\
             url = \"https://uv.example.com/simple\"\n[[tool.poetry.source]]\n\
             url = \"https://poetry.example.com/simple\"\n",
            &["uv.example.com:443", "poetry.example.com:443"],
        );
        check(
            "cargo",
            "[source.crates-io]\nreplace-with = \"m\"\n[source.m]\n\
             registry = \"sparse+https://cargo.example.com/index/\"\n[registries.own]\n\
             index = \"https://git.example.com/index\"\n[http]\nproxy = \"http://p.example\"\n",
            &["cargo.example.com:443", "git.example.com:443"],
        );
        check(
            "maven",
            "<project><url>https://home.example</url><settings><mirrors><mirror><id>m</id>\
             <url>https://maven.example.com/all</url></mirror></mirrors>",
            &["maven.example.com:443"],
        );
    }

    #[test]
    fn answers_of_tools_are_read() {
        for (answer, expect) in [
            ("https://npm.example.com/\n", &["npm.example.com:443"][..]),
            (
                "https://go.example.com,direct\nsum.example.com\n",
                &["go.example.com:443", "sum.example.com:443"],
            ),
            ("off\n\n", &[]),
            ("undefined", &[]),
        ] {
            assert_eq!(find_answer_hosts(answer), expect, "{answer}");
        }
        assert!(has_login("https://ann:pw@a.example/x") && !has_login("https://a.example/@x"));
    }
}
