//! `meshtoll ca`: a mesh's certificate authority in a folder.

use crate::output::say;
use anyhow::{Context as _, bail};
use clap::Subcommand;
use meshtoll_identity::{MeshCa, WorkloadCertificate, files};
use meshtoll_model::ids::SpiffeId;
use std::{
    fs::{self, Permissions},
    io::Write as _,
    os::unix::fs::PermissionsExt as _,
    path::{Path, PathBuf},
    time::{Duration, SystemTime},
};
use tokio::signal::unix::{SignalKind, signal};

/// The authority's private key. Whoever reads it is any workload of the mesh.
const AUTHORITY_KEY: &str = "ca-key.pem";

/// For the owner alone.
const SECRET: u32 = 0o600;
const PUBLIC: u32 = 0o644;

/// How often `--renew` looks whether the authority has changed: a root that was added has to be trusted everywhere soon.
const LOOK: Duration = Duration::from_secs(2);

/// What there is to do with an authority.
#[derive(Debug, Subcommand)]
#[allow(missing_docs, reason = "each variant's doc comment is its help text")]
pub(crate) enum Ca {
    /// Makes an authority in a folder: root-cert.pem, which everyone may read, and ca-key.pem, which nobody else may
    #[command(after_help = "Example:
  meshtoll ca init ca --trust-domain cluster.local")]
    Init {
        /// Folder of the authority; what is there already is not overwritten
        dir: PathBuf,
        /// The mesh's trust domain
        #[arg(long, default_value = "cluster.local")]
        trust_domain: String,
    },
    /// Issues a workload's certificate: cert-chain.pem, key.pem and root-cert.pem
    ///
    /// Each file is replaced at once, the trust bundle first, then the key, then the chain. A reader that sees key and chain of
    /// different certificates keeps the pair that it has until the next change.
    #[command(after_help = "Examples:
  meshtoll ca issue --ca ca --spiffe-id spiffe://cluster.local/ns/airline/sa/booking --out booking
  meshtoll ca issue --ca ca --spiffe-id spiffe://cluster.local/ns/airline/sa/booking --out booking --lifetime 1h --renew")]
    Issue {
        /// Folder of the authority
        #[arg(long, value_name = "DIR")]
        ca: PathBuf,
        /// Whom the certificate names
        #[arg(long, value_name = "spiffe://TRUST_DOMAIN/ns/NAMESPACE/sa/SERVICE_ACCOUNT")]
        spiffe_id: SpiffeId,
        /// Folder to write to
        #[arg(long, value_name = "DIR")]
        out: PathBuf,
        /// How long the certificate is valid, such as 90s, 30m or 24h
        #[arg(long, value_name = "TIME", default_value = "24h", value_parser = lifetime)]
        lifetime: Duration,
        /// Keep running until SIGINT or SIGTERM: issue anew after two thirds of the lifetime, and follow the authority's roots
        #[arg(long)]
        renew: bool,
    },
    /// Replaces an authority's root; the old one stays trusted until --retire
    #[command(after_help = "Example:
  meshtoll ca roll ca             from now on a new root signs, and old and new are trusted
  meshtoll ca roll ca --retire    once every workload has a certificate of the new root")]
    Roll {
        /// Folder of the authority
        dir: PathBuf,
        /// Stop trusting the roots before the one that signs; certificates that they signed are refused from then on
        #[arg(long)]
        retire: bool,
    },
}

/// Does it.
pub(crate) fn run(command: Ca) -> anyhow::Result<()> {
    match command {
        Ca::Init { dir, trust_domain } => init(&dir, &trust_domain),
        Ca::Issue { ca, spiffe_id, out, lifetime, renew } => {
            let mut workload = Workload { ca, spiffe_id, out, lifetime, issued: None };
            let not_after = workload.issue(&load(&workload.ca)?)?;
            say!("{} is valid until {}", workload.spiffe_id, rfc3339(not_after))?;
            if renew { workload.renew_until_told_to_end() } else { Ok(()) }
        }
        Ca::Roll { dir, retire } => roll(&dir, retire),
    }
}

fn init(dir: &Path, trust_domain: &str) -> anyhow::Result<()> {
    let kept = MeshCa::new(trust_domain)?.to_pem();
    fs::create_dir_all(dir).with_context(|| format!("cannot make {}", dir.display()))?;
    for name in [AUTHORITY_KEY, files::TRUST_BUNDLE] {
        if dir.join(name).exists() {
            bail!(
                "{} is there already, and is not overwritten; `meshtoll ca roll {}` replaces a root",
                dir.join(name).display(),
                dir.display()
            );
        }
    }
    write(dir, AUTHORITY_KEY, SECRET, &kept.key_pem)?;
    write(dir, files::TRUST_BUNDLE, PUBLIC, &kept.trust_bundle_pem)?;
    say!("{} vouches for {trust_domain}", dir.display())
}

fn roll(dir: &Path, retire: bool) -> anyhow::Result<()> {
    let mut ca = load(dir)?;
    if retire {
        let retired = ca.retire_old_roots();
        write(dir, files::TRUST_BUNDLE, PUBLIC, &ca.trust_bundle_pem())?;
        return say!("{retired} old root{} retired", if retired == 1 { " is" } else { "s are" });
    }
    let kept = ca.successor()?.to_pem();
    // Trusted first: until the key is there, the old root signs.
    write(dir, files::TRUST_BUNDLE, PUBLIC, &kept.trust_bundle_pem)?;
    write(dir, AUTHORITY_KEY, SECRET, &kept.key_pem)?;
    say!("a new root signs, and the old one is trusted until `meshtoll ca roll {} --retire`", dir.display())
}

fn load(dir: &Path) -> anyhow::Result<MeshCa> {
    let read = |name: &str| {
        let path = dir.join(name);
        fs::read_to_string(&path)
            .with_context(|| format!("cannot read {}; `meshtoll ca init` makes an authority", path.display()))
    };
    MeshCa::load(&read(files::TRUST_BUNDLE)?, &read(AUTHORITY_KEY)?)
        .with_context(|| format!("{} holds no authority", dir.display()))
}

/// A workload whose certificate is kept in a folder.
struct Workload {
    ca: PathBuf,
    spiffe_id: SpiffeId,
    out: PathBuf,
    lifetime: Duration,
    issued: Option<Issued>,
}

/// What was written last.
struct Issued {
    bundle: String,
    chain: String,
    renew_at: SystemTime,
}

impl Workload {
    /// Issues a certificate, and says until when it is valid.
    fn issue(&mut self, ca: &MeshCa) -> anyhow::Result<SystemTime> {
        let WorkloadCertificate { chain_pem, key_pem, not_after, .. } = ca.issue(&self.spiffe_id, self.lifetime)?;
        let bundle = ca.trust_bundle_pem();
        fs::create_dir_all(&self.out).with_context(|| format!("cannot make {}", self.out.display()))?;
        write(&self.out, files::TRUST_BUNDLE, PUBLIC, &bundle)?;
        write(&self.out, files::PRIVATE_KEY, SECRET, &key_pem)?;
        write(&self.out, files::CERTIFICATE_CHAIN, PUBLIC, &chain_pem)?;
        self.issued = Some(Issued { bundle, chain: chain_pem, renew_at: SystemTime::now() + self.lifetime * 2 / 3 });
        Ok(not_after)
    }

    fn renew_until_told_to_end(mut self) -> anyhow::Result<()> {
        let runtime =
            tokio::runtime::Builder::new_current_thread().enable_all().build().context("cannot start a runtime")?;
        runtime.block_on(async {
            let mut interrupted = signal(SignalKind::interrupt()).context("cannot wait for SIGINT")?;
            let mut terminated = signal(SignalKind::terminate()).context("cannot wait for SIGTERM")?;
            let mut look = tokio::time::interval(LOOK.min(self.lifetime / 10));
            loop {
                tokio::select! {
                    _ = interrupted.recv() => return Ok(()),
                    _ = terminated.recv() => return Ok(()),
                    _ = look.tick() => {}
                }
                // What is written stays valid for a while: whoever mends the authority in that time loses nothing.
                if let Err(error) = self.follow() {
                    tracing::warn!("the certificate of {} is not renewed: {error:#}", self.spiffe_id);
                }
            }
        })
    }

    /// Brings what is written up to date with the authority and the time.
    fn follow(&mut self) -> anyhow::Result<()> {
        let ca = load(&self.ca)?;
        let bundle = ca.trust_bundle_pem();
        let Some(issued) = &mut self.issued else { return self.issue(&ca).map(drop) };
        let signer_is_trusted = certificates(&issued.chain).skip(1).all(|signer| bundle.contains(signer));
        if SystemTime::now() >= issued.renew_at || !signer_is_trusted {
            let not_after = self.issue(&ca)?;
            tracing::info!("{} is valid until {}", self.spiffe_id, rfc3339(not_after));
        } else if bundle != issued.bundle {
            write(&self.out, files::TRUST_BUNDLE, PUBLIC, &bundle)?;
            issued.bundle = bundle;
        }
        Ok(())
    }
}

fn certificates(pem: &str) -> impl Iterator<Item = &str> {
    pem.split_inclusive("-----END CERTIFICATE-----\n")
}

/// Replaces a file at once: a reader sees the old content or the new one, and never a part.
fn write(dir: &Path, name: &str, mode: u32, content: &str) -> anyhow::Result<()> {
    let path = dir.join(name);
    let replace = || {
        let mut file = tempfile::Builder::new().permissions(Permissions::from_mode(mode)).tempfile_in(dir)?;
        file.write_all(content.as_bytes())?;
        // The umask may have taken away what everyone is to have.
        file.as_file().set_permissions(Permissions::from_mode(mode))?;
        file.as_file().sync_all()?;
        file.persist(&path).map(drop).map_err(|error| error.error)
    };
    replace().with_context(|| format!("cannot write {}", path.display()))
}

/// Reads `90s`, `30m`, `24h`. Longer than a day is refused: nothing is revoked, so that what leaks has to end by itself.
fn lifetime(text: &str) -> Result<Duration, String> {
    let lifetime = meshtoll_model::duration::parse(text)?;
    if lifetime < Duration::from_secs(1) {
        return Err("a certificate has to be valid for a second at least".to_owned());
    }
    Ok(lifetime)
}

fn rfc3339(time: SystemTime) -> String {
    let time = time::OffsetDateTime::from(time);
    time.format(&time::format_description::well_known::Rfc3339).unwrap_or_else(|_| time.to_string())
}
