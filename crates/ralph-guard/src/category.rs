//! Categories of guard rules.

/// One of the twenty categories of guard rules.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum GuardCategory {
    /// Removal of files and directories.
    Filesystem,
    Disk,
    /// Exhausting memory, processes or disk.
    Exhaustion,
    /// Sending data off the machine.
    Exfiltration,
    /// Letting others into the machine.
    RemoteAccess,
    /// Reading secrets.
    Credentials,
    /// Gaining more rights.
    Privilege,
    /// Leaving a container, or reaching the host.
    Container,
    /// Running foreign code, and publishing code.
    SupplyChain,
    /// Losing history or uncommitted work in git.
    Git,
    SystemConfiguration,
    /// Hiding what is run.
    Obfuscation,
    /// Variables that change what programs do.
    Environment,
    /// Processes and the machine's power.
    Process,
    /// Code that is run later by another program.
    Persistence,
    Database,
    Cloud,
    /// Writing outside the project.
    SensitivePath,
    /// The files and processes of ralph's loop.
    LoopIntegrity,
    /// Commands whose effect cannot be determined.
    Unresolvable,
}

impl GuardCategory {
    /// All categories, in order.
    pub const ALL: [Self; 20] = [
        Self::Filesystem,
        Self::Disk,
        Self::Exhaustion,
        Self::Exfiltration,
        Self::RemoteAccess,
        Self::Credentials,
        Self::Privilege,
        Self::Container,
        Self::SupplyChain,
        Self::Git,
        Self::SystemConfiguration,
        Self::Obfuscation,
        Self::Environment,
        Self::Process,
        Self::Persistence,
        Self::Database,
        Self::Cloud,
        Self::SensitivePath,
        Self::LoopIntegrity,
        Self::Unresolvable,
    ];

    /// Returns the prefix of the rule ids in this category.
    pub fn prefix(self) -> &'static str {
        match self {
            Self::Filesystem => "fs",
            Self::Disk => "disk",
            Self::Exhaustion => "dos",
            Self::Exfiltration => "exfil",
            Self::RemoteAccess => "revshell",
            Self::Credentials => "cred",
            Self::Privilege => "priv",
            Self::Container => "container",
            Self::SupplyChain => "supply",
            Self::Git => "git",
            Self::SystemConfiguration => "sysconf",
            Self::Obfuscation => "obfus",
            Self::Environment => "env",
            Self::Process => "proc",
            Self::Persistence => "persist",
            Self::Database => "db",
            Self::Cloud => "cloud",
            Self::SensitivePath => "path",
            Self::LoopIntegrity => "loop",
            Self::Unresolvable => "unresolvable",
        }
    }

    /// Returns the display name.
    pub fn name(self) -> &'static str {
        match self {
            Self::Filesystem => "destructive file system",
            Self::Disk => "disk, partition, boot",
            Self::Exhaustion => "denial of service",
            Self::Exfiltration => "exfiltration",
            Self::RemoteAccess => "reverse shell, remote access",
            Self::Credentials => "credential exposure",
            Self::Privilege => "privilege escalation",
            Self::Container => "container escape",
            Self::SupplyChain => "supply chain",
            Self::Git => "destructive git",
            Self::SystemConfiguration => "system configuration",
            Self::Obfuscation => "obfuscated or indirect execution",
            Self::Environment => "environment and PATH injection",
            Self::Process => "process and system",
            Self::Persistence => "persistence",
            Self::Database => "database",
            Self::Cloud => "cloud",
            Self::SensitivePath => "sensitive-path writes",
            Self::LoopIntegrity => "loop integrity",
            Self::Unresolvable => "unresolvable in a dangerous position",
        }
    }
}
