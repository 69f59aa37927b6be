//! What runs in the pods: servers that say who they are, and an agent that does as it is told on standard input.

use crate::cases::Problem;
use meshtoll_testbed::dns;
use nix::{
    sys::socket::{self, AddressFamily, SockFlag, SockType, SockaddrIn, getsockopt, setsockopt, sockopt},
    time::ClockId,
};
use std::{
    ffi::CString,
    fs,
    io::{self, BufRead as _, BufReader, Read as _, Write as _},
    net::{Ipv4Addr, SocketAddr, SocketAddrV4, TcpListener, TcpStream},
    os::fd::AsRawFd as _,
    process::Command,
    ptr,
    time::Duration,
};

pub(crate) fn run(words: &[&str]) -> Result<(), Problem> {
    match words {
        ["serve", name, port] => serve(name, port.parse()?),
        ["dns", zone, addresses @ ..] => {
            let listen = addresses.iter().map(|address| address.parse()).collect::<Result<_, _>>()?;
            let counts = dns::serve(&dns::Options { listen, zone: zone.into() })?;
            println!("{}", serde_json::to_string(&counts)?);
            Ok(())
        }
        ["http", port] => answer_http(port.parse()?),
        ["agent"] => obey(),
        ["succeed"] => Ok(()),
        ["fail"] => {
            (1..=30).for_each(|line| eprintln!("line {line}"));
            Err("this process fails on purpose".into())
        }
        other => Err(format!("unknown process {other:?}").into()),
    }
}

/// Tells each client its name, where the client wanted to go, and from where it came.
fn serve(name: &str, port: u16) -> Result<(), Problem> {
    for stream in TcpListener::bind((Ipv4Addr::UNSPECIFIED, port))?.incoming() {
        let mut stream = stream?;
        let local = stream.local_addr()?;
        let original = getsockopt(&stream, sockopt::OriginalDst).map(|address| {
            SocketAddr::from((
                Ipv4Addr::from_bits(u32::from_be(address.sin_addr.s_addr)),
                u16::from_be(address.sin_port),
            ))
        });
        // No translation, no original.
        let wanted = original.unwrap_or(local);
        // A readiness check leaves before it is told anything.
        let _ = write!(stream, "{name} {wanted} {}", stream.peer_addr()?.ip());
    }
    Ok(())
}

/// An administration interface as Envoy's: `/stats` in chunks, and 404 for all else.
fn answer_http(port: u16) -> Result<(), Problem> {
    for stream in TcpListener::bind((Ipv4Addr::LOCALHOST, port))?.incoming() {
        let mut stream = BufReader::new(stream?);
        let mut request = String::new();
        while stream.read_line(&mut request)? > 2 {}
        let answer = if request.starts_with("GET /stats HTTP/1.1\r\n") {
            "200 OK\r\ntransfer-encoding: chunked\r\n\r\n5\r\nstats\r\n3\r\n: 1\r\n0\r\n\r\n"
        } else {
            "404 Not Found\r\ncontent-length: 0\r\n\r\n"
        };
        write!(stream.get_mut(), "HTTP/1.1 {answer}")?;
    }
    Ok(())
}

fn obey() -> Result<(), Problem> {
    for line in io::stdin().lock().lines() {
        let line = line?;
        let words: Vec<&str> = line.split(' ').collect();
        let answer = match words.as_slice() {
            ["connect", address] => text(connect(address, None)),
            ["connect", address, mark] => text(connect(address, Some(mark.parse()?))),
            ["resolve", family, name] => resolve(family, name)?,
            ["read", path] => text(fs::read_to_string(path)),
            ["orphan"] => {
                let output = Command::new("sh").args(["-c", "sleep 0.05 >/dev/null & echo $!"]).output()?;
                String::from_utf8(output.stdout)?.trim().to_owned()
            }
            ["spin", ms] => spin(ms.parse()?)?.to_string(),
            other => return Err(format!("unknown order {other:?}").into()),
        };
        println!("{}", serde_json::to_string(&answer)?);
    }
    Ok(())
}

fn text(result: io::Result<String>) -> String {
    result.unwrap_or_else(|error| format!("{:?}", error.kind()))
}

fn connect(address: &str, mark: Option<u32>) -> io::Result<String> {
    let address: SocketAddrV4 = address.parse().map_err(io::Error::other)?;
    let socket = socket::socket(AddressFamily::Inet, SockType::Stream, SockFlag::empty(), None)?;
    if let Some(mark) = mark {
        setsockopt(&socket, sockopt::Mark, &mark)?;
    }
    socket::connect(socket.as_raw_fd(), &SockaddrIn::from(address))?;
    let mut stream = TcpStream::from(socket);
    stream.set_read_timeout(Some(Duration::from_secs(5)))?;
    let mut answer = String::new();
    stream.read_to_string(&mut answer)?;
    Ok(answer)
}

/// Asks the C library, as applications do.
fn resolve(family: &str, name: &str) -> Result<String, Problem> {
    let name = CString::new(name)?;
    // SAFETY: all zeroes is the documented default of `addrinfo` hints.
    let mut hints: libc::addrinfo = unsafe { std::mem::zeroed() };
    hints.ai_family = if family == "6" { libc::AF_INET6 } else { libc::AF_INET };
    hints.ai_socktype = libc::SOCK_STREAM;
    let mut found = ptr::null_mut();
    // SAFETY: the name ends in zero, the hints and the place for the result are valid.
    let code = unsafe { libc::getaddrinfo(name.as_ptr(), ptr::null(), &hints, &mut found) };
    if code != 0 {
        return Ok(match code {
            libc::EAI_NONAME => "no such name".into(),
            libc::EAI_NODATA => "no address".into(),
            other => format!("error {other}"),
        });
    }
    let mut addresses = Vec::new();
    let mut each = found;
    while !each.is_null() {
        // SAFETY: the list is the C library's; with AF_INET its addresses are `sockaddr_in`.
        let (address, next) = unsafe { (&*(*each).ai_addr.cast::<libc::sockaddr_in>(), (*each).ai_next) };
        addresses.push(Ipv4Addr::from_bits(u32::from_be(address.sin_addr.s_addr)).to_string());
        each = next;
    }
    // SAFETY: the list comes from `getaddrinfo` and is not used any more.
    unsafe { libc::freeaddrinfo(found) };
    addresses.sort();
    Ok(addresses.join(" "))
}

/// Works until this process has used so much more CPU time; all that it has used, ns.
fn spin(ms: i64) -> Result<i64, Problem> {
    let used = || -> Result<i64, Problem> {
        let now = ClockId::CLOCK_PROCESS_CPUTIME_ID.now()?;
        Ok(now.tv_sec() * 1_000_000_000 + now.tv_nsec())
    };
    let until = used()? + ms * 1_000_000;
    // Half of it in a thread that ends: its time has to count too.
    std::thread::scope(|scope| {
        scope.spawn(move || while used().expect("the clock") < until - ms * 500_000 {});
    });
    while used()? < until {}
    used()
}
