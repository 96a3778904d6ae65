//! Kinds of projects by their tools, with the real tools of npm, pip and the distribution.

use super::stage::ProjectStage;

/// Sets up a project, lets ralph find its checks and builds one task.
#[track_caller]
fn check(
    what: &str,
    programs: &[&str],
    files: &[(&str, &str)],
    prepare: &str,
    checks: &[&str],
    work: &str,
) {
    if let Some(stage) = ProjectStage::new(what, programs, files, prepare) {
        stage.build_one_task(checks, work);
    }
}

#[test]
fn npm_with_jest_eslint_and_tsc() {
    check(
        "npm",
        &["npm", "pnpm"],
        &[
            ("src/sum.js", "/** @param {number} a */\nexport const double = (a) => 2 * a;\n"),
            (
                "src/sum.test.js",
                "import { double } from './sum.js';\ntest('double', () => expect(double(2)).toBe(4));\n",
            ),
            ("jest.config.mjs", "export default { transform: {} };\n"),
            (
                "eslint.config.mjs",
                "import js from '@eslint/js';\nexport default [js.configs.recommended,\n  \
                 { languageOptions: { globals: { test: 'readonly', expect: 'readonly' } } }];\n",
            ),
            (
                "tsconfig.json",
                r#"{ "compilerOptions": { "checkJs": true, "noEmit": true, "strict": true,
                     "module": "nodenext", "types": [] }, "include": ["src/answer.js", "src/sum.js"] }"#,
            ),
        ],
        "cp -a $TOOLS/npm/. .",
        &["npm run test", "npm run lint", "npm run typecheck"],
        "echo \"export const answer = () => $answer;\" > src/answer.js\n\
         printf \"import { answer } from './answer.js';\\ntest('answer', () => expect(answer()).toBe(42));\\n\" \
         > src/answer.test.js",
    );
}

#[test]
fn pnpm_with_vitest() {
    check(
        "pnpm",
        &["pnpm"],
        &[(
            "src/sum.test.ts",
            "import { expect, test } from 'vitest';\ntest('sum', () => expect(1 + 1).toBe(2));\n",
        )],
        "cp -a $TOOLS/pnpm/. .",
        &["pnpm run test"],
        "echo \"export const answer = (): number => $answer;\" > src/answer.ts\n\
         printf \"import { expect, test } from 'vitest';\\nimport { answer } from './answer';\\n\
         test('answer', () => expect(answer()).toBe(42));\\n\" > src/answer.test.ts",
    );
}

/// A Python project for pytest, ruff and mypy.
const PYTHON: [(&str, &str); 2] = [
    ("src/shop.py", "def double(a: int) -> int:\n    return 2 * a\n"),
    (
        "tests/test_shop.py",
        "from shop import double\n\n\ndef test_double() -> None:\n    assert double(2) == 4\n",
    ),
];

const PYTHON_TOOLS: &str = "[tool.pytest.ini_options]\npythonpath = [\"src\"]\n\
    [tool.ruff]\nline-length = 100\n[tool.mypy]\nfiles = [\"src\"]\nstrict = true\n";

const PYTHON_WORK: &str = "printf 'def answer() -> int:\\n    return %s\\n' $answer > src/answer.py\n\
    printf 'from answer import answer\\n\\n\\ndef test_answer() -> None:\\n    assert answer() == 42\\n' \
    > tests/test_answer.py";

/// Fills the cache of uv, as it is after earlier installations.
const FILL_CACHE: &str =
    "mkdir -p ~/.cache; cp -a $TOOLS/uv-cache ~/.cache/uv; export UV_OFFLINE=1\n";

#[test]
fn virtual_environment_with_pytest_ruff_and_mypy() {
    let manifest = format!("[project]\nname = \"shop\"\nversion = \"0.1.0\"\n{PYTHON_TOOLS}");
    check(
        "venv",
        &["uv", "/usr/bin/python3"],
        &[&PYTHON[..], &[("pyproject.toml", &manifest)]].concat(),
        &format!(
            "{FILL_CACHE}/usr/bin/python3 -m venv --without-pip .venv\n\
             uv pip install --quiet --python .venv --requirement $TOOLS/requirements-dev.txt"
        ),
        &[".venv/bin/pytest", ".venv/bin/ruff check .", ".venv/bin/mypy"],
        PYTHON_WORK,
    );
}

#[test]
fn uv_project() {
    check(
        "uv",
        &["uv", "/usr/bin/python3"],
        &PYTHON,
        &format!(
            "{FILL_CACHE}cp $TOOLS/uv/pyproject.toml $TOOLS/uv/uv.lock .\n\
             uv sync --quiet --frozen --python /usr/bin/python3"
        ),
        &["uv run pytest", "uv run ruff check .", "uv run mypy"],
        PYTHON_WORK,
    );
}

#[test]
fn poetry_project() {
    let manifest = "[tool.poetry]\nname = \"shop\"\nversion = \"0.1.0\"\ndescription = \"\"\n\
                    authors = []\npackage-mode = false\n[tool.poetry.dependencies]\npython = \"*\"\n\
                    [tool.pytest.ini_options]\npythonpath = [\"src\"]\n";
    check(
        "poetry",
        &["poetry", "uv", "/usr/bin/python3"],
        &[&PYTHON[..], &[("pyproject.toml", manifest)]].concat(),
        &format!(
            "{FILL_CACHE}poetry lock --quiet\npoetry env use --quiet /usr/bin/python3\n\
             uv pip install --quiet --python $(poetry env info --path) \
             --requirement $TOOLS/requirements-dev.txt"
        ),
        &["poetry run pytest"],
        PYTHON_WORK,
    );
}

#[test]
fn go_module() {
    check(
        "go",
        &["go"],
        &[
            ("go.mod", "module shop\n\ngo 1.19\n"),
            ("sum.go", "package shop\n\nfunc Double(a int) int { return 2 * a }\n"),
            (
                "sum_test.go",
                "package shop\n\nimport \"testing\"\n\nfunc TestDouble(t *testing.T) {\n\t\
                 if Double(2) != 4 {\n\t\tt.Fatal()\n\t}\n}\n",
            ),
        ],
        "true",
        &["go test ./...", "go vet ./..."],
        "printf 'package shop\\n\\nfunc Answer() int { return %s }\\n' $answer > answer.go\n\
         printf 'package shop\\n\\nimport \"testing\"\\n\\nfunc TestAnswer(t *testing.T) {\\n\\t\
         if Answer() != 42 {\\n\\t\\tt.Fatal()\\n\\t}\\n}\\n' > answer_test.go",
    );
}

#[test]
fn maven_project() {
    let manifest = r#"<project xmlns="http://maven.apache.org/POM/4.0.0">
  <modelVersion>4.0.0</modelVersion>
  <groupId>org.example</groupId><artifactId>shop</artifactId><version>1</version>
  <properties>
    <maven.compiler.source>8</maven.compiler.source>
    <maven.compiler.target>8</maven.compiler.target>
    <project.build.sourceEncoding>UTF-8</project.build.sourceEncoding>
  </properties>
  <dependencies><dependency>
    <groupId>junit</groupId><artifactId>junit</artifactId><version>4.x</version><scope>test</scope>
  </dependency></dependencies>
  <build><plugins>
    <plugin><artifactId>maven-resources-plugin</artifactId><version>@resources@</version></plugin>
    <plugin><artifactId>maven-compiler-plugin</artifactId><version>@compiler@</version></plugin>
    <plugin><artifactId>maven-surefire-plugin</artifactId><version>@surefire@</version></plugin>
  </plugins></build>
</project>
"#;
    let test = |name: &str, body: &str| {
        format!(
            "import static org.junit.Assert.assertEquals;\nimport org.junit.Test;\n\
             public class {name} {{\n    @Test public void works() {{ {body} }}\n}}\n"
        )
    };
    let first = test("FirstTest", "assertEquals(2, 1 + 1);");
    let second = test("AnswerTest", "assertEquals(42, Answer.answer());").replace('\n', "\\n");
    check(
        "maven",
        &["mvn", "javac", "/usr/share/maven-repo/org/apache/maven/plugins/maven-surefire-plugin"],
        &[("pom.xml", manifest), ("src/test/java/FirstTest.java", &first)],
        // Plugins of the distribution in the user's store, as after an earlier download. Java asks
        // the system for the home directory, not the environment.
        "mkdir -p ~/.m2 .mvn && echo -Dmaven.repo.local=$HOME/.m2/repository > .mvn/maven.config\n\
         cp -rL /usr/share/maven-repo ~/.m2/repository\n\
         for it in resources compiler surefire; do\n\
         version=$(ls ~/.m2/repository/org/apache/maven/plugins/maven-$it-plugin | grep '^[0-9]' | tail -n 1)\n\
         sed -i \"s/@$it@/$version/\" pom.xml; done",
        &["mvn --batch-mode test"],
        &format!(
            "mkdir -p src/main/java\n\
             echo \"public class Answer {{ static int answer() {{ return $answer; }} }}\" \
             > src/main/java/Answer.java\nprintf '{second}' > src/test/java/AnswerTest.java"
        ),
    );
}

#[test]
fn cmake_with_ctest() {
    check(
        "cmake",
        &["cmake", "ctest", "cc"],
        &[
            (
                "CMakeLists.txt",
                "cmake_minimum_required(VERSION 3.10)\nproject(shop C)\nenable_testing()\n\
                 file(GLOB TESTS CONFIGURE_DEPENDS test_*.c)\nforeach(test ${TESTS})\n  \
                 get_filename_component(name ${test} NAME_WE)\n  add_executable(${name} ${test})\n  \
                 add_test(NAME ${name} COMMAND ${name})\nendforeach()\n",
            ),
            ("test_sum.c", "int main(void) { return 1 + 1 == 2 ? 0 : 1; }\n"),
        ],
        "true",
        &[
            "cmake -S . -B build && cmake --build build && ctest --test-dir build --output-on-failure",
        ],
        "echo \"static int answer(void) { return $answer; }\" > answer.h\n\
         printf '#include \"answer.h\"\\nint main(void) { return answer() == 42 ? 0 : 1; }\\n' \
         > test_answer.c",
    );
}

#[test]
fn makefile() {
    check(
        "make",
        &["make"],
        &[
            ("Makefile", "test:\n\tfor it in test_*.sh; do sh $$it || exit 1; done\n"),
            ("test_1.sh", "true\n"),
        ],
        "true",
        &["make test"],
        "echo \"answer=$answer\" > answer.sh\necho '. ./answer.sh; test $answer = 42' > test_2.sh",
    );
}

#[test]
fn ruby_with_bundler_and_rake() {
    check(
        "ruby",
        &["ruby", "bundle", "rake"],
        &[
            ("Gemfile", "gem 'rake'\ngem 'minitest'\n"),
            (
                "Rakefile",
                "require 'rake/testtask'\nRake::TestTask.new(:test) { |t| t.pattern = 'test/*_test.rb' }\n",
            ),
            (
                "test/sum_test.rb",
                "require 'minitest/autorun'\nclass SumTest < Minitest::Test\n  \
                 def test_sum = assert_equal(2, 1 + 1)\nend\n",
            ),
        ],
        "bundle install --quiet --local",
        &["bundle exec rake test"],
        "mkdir -p lib; echo \"def answer = $answer\" > lib/answer.rb\n\
         printf \"require 'minitest/autorun'\\nrequire 'answer'\\nclass AnswerTest < Minitest::Test\\n  \
         def test_answer = assert_equal(42, answer)\\nend\\n\" > test/answer_test.rb",
    );
}

#[test]
fn php_with_phpunit() {
    let test = |class: &str, body: &str| {
        format!(
            "<?php\nuse PHPUnit\\\\Framework\\\\TestCase;\nclass {class} extends TestCase {{\n    \
             public function testIt(): void {{ {body} }}\n}}\n"
        )
    };
    let first = test("SumTest", "$this->assertSame(2, 1 + 1);").replace("\\\\", "\\");
    let second = test(
        "AnswerTest",
        "require_once __DIR__.\"/../answer.php\"; $this->assertSame(42, answer());",
    )
    .replace('\n', "\\n");
    check(
        "php",
        &["php", "phpunit"],
        &[
            ("composer.json", "{ \"name\": \"example/shop\" }\n"),
            (
                "phpunit.xml",
                "<phpunit><testsuites><testsuite name=\"all\"><directory>tests</directory>\
                 </testsuite></testsuites></phpunit>\n",
            ),
            ("tests/SumTest.php", &first),
        ],
        // As composer places it.
        "mkdir -p vendor/bin; ln -s /usr/bin/phpunit vendor/bin/phpunit",
        &["vendor/bin/phpunit"],
        &format!(
            "printf '<?php\\nfunction answer(): int {{ return %s; }}\\n' $answer > answer.php\n\
             printf '{second}' > tests/AnswerTest.php"
        ),
    );
}
