//! What a proxy is told: a mesh description and a folder of Istio resources, read and compiled to routes.

use meshtoll_model::{
    diagnostics::{Diagnostics, SourceFile},
    ids::WorkloadName,
    istio::{self, CheckedResources, MeshFacts},
    topology::Topology,
};
use meshtoll_policy::{
    CompileError, compile_gateway, compile_sidecar,
    routes::{GatewayRoutes, SidecarRoutes},
};
use std::{
    io,
    path::{Path, PathBuf},
};

/// Where a proxy's configuration is.
#[derive(Clone, Debug)]
pub struct Source {
    /// The mesh description: services, gateway, and where they are (JSON).
    pub mesh: PathBuf,
    /// Istio resources: a YAML file, or a folder of them.
    pub resources: PathBuf,
}

/// Why a configuration cannot be used. The one before stays in force.
#[derive(Debug, thiserror::Error)]
pub enum ConfigError {
    /// A file cannot be read.
    #[error("cannot read {}: {source}", path.display())]
    Read {
        /// Which.
        path: PathBuf,
        /// Why.
        source: io::Error,
    },
    /// A folder has no resources.
    #[error("{} has no .yaml or .yml file", path.display())]
    Empty {
        /// Which.
        path: PathBuf,
    },
    /// The mesh description is not one.
    #[error("{}: {source}", path.display())]
    Mesh {
        /// Which file.
        path: PathBuf,
        /// Where and why.
        source: serde_json::Error,
    },
    /// Resources are wrong, each with file, line and field.
    #[error("{0}")]
    Resources(Diagnostics),
    /// Resources and mesh description do not belong together.
    #[error(transparent)]
    Compile(#[from] CompileError),
}

impl Source {
    /// What the sidecar of a workload does.
    pub fn sidecar(&self, workload: &WorkloadName) -> Result<SidecarRoutes, ConfigError> {
        let (topology, resources) = self.read()?;
        Ok(compile_sidecar(&resources, &topology, workload)?)
    }

    /// What the egress gateway does.
    pub fn gateway(&self) -> Result<GatewayRoutes, ConfigError> {
        let (topology, resources) = self.read()?;
        Ok(compile_gateway(&resources, &topology)?)
    }

    /// The mesh description alone.
    pub fn topology(&self) -> Result<Topology, ConfigError> {
        let text = read(&self.mesh)?;
        serde_json::from_str(&text).map_err(|source| ConfigError::Mesh { path: self.mesh.clone(), source })
    }

    fn read(&self) -> Result<(Topology, CheckedResources), ConfigError> {
        let topology = self.topology()?;
        let files = yaml_files(&self.resources)?;
        let files = files.into_iter().map(|path| {
            let text = read(&path)?;
            Ok(SourceFile { path, text })
        });
        let files = files.collect::<Result<Vec<_>, ConfigError>>()?;
        let checked = istio::parse(&files).and_then(|resources| resources.check(&MeshFacts::of(&topology)));
        Ok((topology, checked.map_err(ConfigError::Resources)?))
    }
}

/// The file itself, or the YAML files of the folder in the order of their names.
fn yaml_files(path: &Path) -> Result<Vec<PathBuf>, ConfigError> {
    let failed = |source| ConfigError::Read { path: path.into(), source };
    if !path.is_dir() {
        return Ok(vec![path.into()]);
    }
    let mut files = Vec::new();
    for entry in path.read_dir().map_err(failed)? {
        let file = entry.map_err(failed)?.path();
        if file.extension().is_some_and(|extension| extension == "yaml" || extension == "yml") {
            files.push(file);
        }
    }
    if files.is_empty() {
        return Err(ConfigError::Empty { path: path.into() });
    }
    files.sort();
    Ok(files)
}

fn read(path: &Path) -> Result<String, ConfigError> {
    std::fs::read_to_string(path).map_err(|source| ConfigError::Read { path: path.into(), source })
}
