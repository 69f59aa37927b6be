//! Files and folders of the private file system, with modes of their own whatever the caller's umask is: every
//! uid of the testbed has to reach them.

use std::{
    fs::{self, File, OpenOptions, Permissions},
    io::{self, Write as _},
    os::unix::fs::{OpenOptionsExt as _, PermissionsExt as _, chown},
    path::Path,
};

/// Makes a folder that everyone may enter, and those above it.
pub(crate) fn make_folder(path: &Path, owner: Option<u32>) -> io::Result<()> {
    if let Some(above) = path.parent().filter(|above| !above.exists()) {
        make_folder(above, None)?;
    }
    fs::create_dir(path)?;
    fs::set_permissions(path, Permissions::from_mode(0o755))?;
    chown(path, owner, owner)
}

/// Makes a file, which may not exist yet, and leaves it open for appending.
pub(crate) fn make_file(path: &Path, contents: &str, mode: u32, owner: Option<u32>) -> io::Result<File> {
    // Closed to others from the start, so that a secret is at no time readable.
    let mut file = OpenOptions::new().append(true).create_new(true).mode(0o600).open(path)?;
    file.write_all(contents.as_bytes())?;
    file.set_permissions(Permissions::from_mode(mode))?;
    chown(path, owner, owner)?;
    Ok(file)
}
