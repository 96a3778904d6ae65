//! What a rule belongs to.

/// One of the twenty categories.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum Category {
    /// Files and directories that go.
    Filesystem,
    /// Disks, partitions, boot.
    Disk,
    /// The machine is used up.
    Exhaustion,
    /// Data leaves the machine.
    Exfiltration,
    /// Others get in.
    RemoteAccess,
    /// Secrets are read.
    Credentials,
    /// More rights than before.
    Privilege,
    /// Out of a container, or into the host.
    Container,
    /// Code of others, and code for others.
    SupplyChain,
    /// History and work that git keeps.
    Git,
    /// How the system is set up.
    SystemConfiguration,
    /// What is run is hidden.
    Obfuscation,
    /// Variables that change what programs do.
    Environment,
    /// Processes and the machine's power.
    Process,
    /// What is run later, by somebody else.
    Persistence,
    /// Databases.
    Database,
    /// Clouds and clusters.
    Cloud,
    /// Files outside the project.
    SensitivePath,
    /// The loop itself.
    LoopIntegrity,
    /// Nobody can tell what would happen.
    Unresolvable,
}

impl Category {
    /// All of them, in order.
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

    /// Returns the word that the ids of its rules begin with.
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

    /// Returns what it is called.
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
