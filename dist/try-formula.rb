# Carries out a formula with a stand-in for the words of Homebrew that it uses: says which archive
# it would take, installs what is in an unpacked one into a directory, and runs its test. Homebrew
# itself is not needed, and its own rules are not checked.
#
#   ruby dist/try-formula.rb FORMULA OS CPU UNPACKED PREFIX
#
# OS is macos or linux, CPU is arm or intel.
require "fileutils"

formula, OS, CPU, unpacked, prefix = ARGV

# A place that files are installed to; a hash says under which other name.
class Place
  def initialize(path)
    @path = path
  end

  def install(files)
    files = { files => File.basename(files) } unless files.is_a?(Hash)
    FileUtils.mkdir_p(@path)
    files.each { |from, name| FileUtils.cp(from, File.join(@path, name), preserve: true) }
  end

  def to_s
    @path
  end
end

# What a formula is made of.
class Formula
  class << self
    attr_reader :facts, :trial

    %i[desc homepage version license url sha256].each do |word|
      define_method(word) do |value = nil|
        @facts ||= {}
        return @facts[word] if value.nil?
        raise "#{word} is said twice" if @facts.key?(word)

        @facts[word] = value
      end
    end

    def on_macos
      yield if OS == "macos"
    end

    def on_linux
      yield if OS == "linux"
    end

    def on_arm
      yield if CPU == "arm"
    end

    def on_intel
      yield if CPU == "intel"
    end

    def test(&block)
      @trial = block
    end
  end

  def self.place(name, directory)
    define_method(name) { Place.new(File.join(@prefix, directory)) }
  end

  place :prefix, ""
  place :bin, "bin"
  place :man1, "share/man/man1"
  place :bash_completion, "etc/bash_completion.d"
  place :zsh_completion, "share/zsh/site-functions"
  place :fish_completion, "share/fish/vendor_completions.d"

  def initialize(prefix)
    @prefix = prefix
  end

  def version
    self.class.version
  end

  def shell_output(line)
    out = `#{line}`
    raise "#{line} failed" unless $?.success?

    out
  end

  def assert_match(wanted, found)
    raise "#{found.inspect} has no #{wanted.inspect}" unless found.include?(wanted)
  end
end

load formula
facts = Ralph.facts
missing = %i[desc homepage version license url sha256].reject { |word| facts.key?(word) }
abort "the formula does not say #{missing.join(", ")} on #{OS} #{CPU}" unless missing.empty?
abort "#{facts[:sha256]} is no checksum" unless facts[:sha256].match?(/\A\h{64}\z/)
puts facts[:url]
puts facts[:sha256]
ralph = Ralph.new(prefix)
Dir.chdir(unpacked) { ralph.install }
ralph.instance_eval(&Ralph.trial)
