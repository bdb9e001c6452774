//! Which addresses the host may dial for a guest: everything that is not plainly public needs a grant or is never dialled.
//!
//! The ranges are IANA's special-purpose registries. An IPv6 address that carries an IPv4 address is judged by that.

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};

/// How far away an address is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Reach {
    /// On the public internet.
    Public,
    /// This machine, this link or this network: only for a grant with `private = true`.
    Private,
    /// Nothing that answers a request lives there: multicast, unspecified, documentation, benchmarks, reserved.
    Never,
}

/// Judges one address.
pub(crate) fn reach(address: IpAddr) -> Reach {
    match address {
        IpAddr::V4(v4) => reach_v4(v4),
        IpAddr::V6(v6) => reach_v6(v6),
    }
}

fn reach_v4(address: Ipv4Addr) -> Reach {
    match address.octets() {
        [10 | 127, ..] | [169, 254, ..] | [192, 168, ..] => Reach::Private,
        [172, b, ..] if (16..32).contains(&b) => Reach::Private,
        // Carrier-grade NAT; clouds keep metadata services here too.
        [100, b, ..] if (64..128).contains(&b) => Reach::Private,
        // "This network": Linux dials the machine itself.
        [0, ..] => Reach::Never,
        // Protocol assignments, documentation, 6to4 relays, benchmarks.
        [192, 0, 0 | 2, _] | [198, 51, 100, _] | [203, 0, 113, _] | [192, 88, 99, _] | [198, 18 | 19, ..] => {
            Reach::Never
        }
        // Multicast, reserved, broadcast.
        [224..=255, ..] => Reach::Never,
        _ => Reach::Public,
    }
}

fn reach_v6(address: Ipv6Addr) -> Reach {
    let embedded = |high: u16, low: u16| {
        let ([a, b], [c, d]) = (high.to_be_bytes(), low.to_be_bytes());
        reach_v4(Ipv4Addr::new(a, b, c, d))
    };
    match address.segments() {
        [0, 0, 0, 0, 0, 0, 0, 0] => Reach::Never,
        [0, 0, 0, 0, 0, 0, 0, 1] => Reach::Private,
        // IPv4-compatible, IPv4-mapped, IPv4-translated, NAT64.
        [0, 0, 0, 0, 0, 0 | 0xffff, high, low]
        | [0, 0, 0, 0, 0xffff, 0, high, low]
        | [0x64, 0xff9b, 0, 0, 0, 0, high, low] => embedded(high, low),
        // NAT64 inside one network.
        [0x64, 0xff9b, 1, ..] => Reach::Private,
        // 6to4.
        [0x2002, high, low, ..] => embedded(high, low),
        // Protocol assignments: Teredo, benchmarks, ORCHID.
        [0x2001, b, ..] if b < 0x200 => Reach::Never,
        // Documentation.
        [0x2001, 0xdb8, ..] => Reach::Never,
        [0x3fff, b, ..] if b < 0x1000 => Reach::Never,
        // Global unicast.
        [a, ..] if a & 0xe000 == 0x2000 => Reach::Public,
        // Unique local, link-local, the old site-local.
        [a, ..] if a & 0xfe00 == 0xfc00 || a & 0xffc0 == 0xfe80 || a & 0xffc0 == 0xfec0 => Reach::Private,
        _ => Reach::Never,
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, reason = "test")]
    use super::*;

    #[test]
    fn every_special_range_is_known() {
        let table: &[(Reach, &[&str])] = &[
            (
                Reach::Public,
                &[
                    "1.1.1.1",
                    "8.8.8.8",
                    "172.15.0.1",
                    "172.32.0.1",
                    "100.63.0.1",
                    "100.128.0.1",
                    "192.0.1.1",
                    "223.255.255.255",
                    "2606:4700::1111",
                    "2a00::1",
                    "64:ff9b::8.8.8.8",
                    "2002:808:808::1",
                    "::ffff:8.8.8.8",
                    "2001:200::1",
                ],
            ),
            (
                Reach::Private,
                &[
                    "10.0.0.1",
                    "127.0.0.1",
                    "127.255.255.254",
                    "169.254.169.254",
                    "172.16.0.1",
                    "172.31.255.255",
                    "192.168.1.1",
                    "100.64.0.1",
                    "100.127.255.255",
                    "::1",
                    "fc00::1",
                    "fd12::1",
                    "fe80::1",
                    "febf::1",
                    "fec0::1",
                    "::ffff:127.0.0.1",
                    "::ffff:169.254.169.254",
                    "::127.0.0.1",
                    "::ffff:0:10.0.0.1",
                    "64:ff9b::10.0.0.1",
                    "64:ff9b:1::1",
                    "2002:7f00:1::",
                    "2002:a9fe:a9fe::1",
                ],
            ),
            (
                Reach::Never,
                &[
                    "0.0.0.0",
                    "0.1.2.3",
                    "192.0.0.1",
                    "192.0.2.1",
                    "198.51.100.7",
                    "203.0.113.9",
                    "198.18.0.1",
                    "198.19.255.255",
                    "192.88.99.1",
                    "224.0.0.1",
                    "239.1.1.1",
                    "240.0.0.1",
                    "255.255.255.255",
                    "::",
                    "ff02::1",
                    "2001:db8::1",
                    "3fff::1",
                    "2001::1",
                    "2001:2::1",
                    "100::1",
                    "5f00::1",
                    "::ffff:0.0.0.0",
                    "4000::1",
                ],
            ),
        ];
        for (expected, addresses) in table {
            for address in *addresses {
                assert_eq!(reach(address.parse().unwrap()), *expected, "{address}");
            }
        }
    }
}
