import { AsyncLocalStorage } from "node:async_hooks";
import { lookup as systemLookup } from "node:dns";
import { lookup as resolve } from "node:dns/promises";
import { BlockList, isIP, type LookupFunction, Socket } from "node:net";
import { networkInterfaces } from "node:os";
import { EgressFault } from "./store-failure.ts";

/**
 * The egress network policy: no connection to addresses of this machine or of its link. What listens there trusts whoever
 * reaches it, such as a metadata service that hands out the machine's own keys.
 *
 * A host is checked before a store is asked. Each connection is checked again when it is made, because a redirect leads
 * elsewhere and a name may stand for another address by then. The vendors' clients make their connections each in their
 * own way, so the policy is enforced where all of them pass: at the socket.
 */

const LOCAL = new BlockList();
for (const [net, bits] of [
  ["0.0.0.0", 8],
  ["127.0.0.0", 8],
  ["169.254.0.0", 16],
] as const) {
  LOCAL.addSubnet(net, bits, "ipv4");
  // IPv4-mapped, IPv4-compatible, and through NAT64 (RFC 4291 §2.5.5, RFC 6052).
  for (const prefix of ["::ffff:", "::", "64:ff9b::"]) LOCAL.addSubnet(`${prefix}${net}`, 96 + bits, "ipv6");
}
LOCAL.addAddress("::", "ipv6");
LOCAL.addAddress("::1", "ipv6");
LOCAL.addSubnet("fe80::", 10, "ipv6");
// Metadata services that are not at a link-local address: AWS by IPv6, Google by IPv6, Azure's host, Oracle, Alibaba.
for (const address of ["fd00:ec2::254", "fd20:ce::254"]) LOCAL.addAddress(address, "ipv6");
for (const address of ["168.63.129.16", "192.0.0.192", "100.100.100.200"]) LOCAL.addAddress(address, "ipv4");

/** Whether an IP address is one of this machine or of its link, or of a cloud's metadata service. */
export function isLocalAddress(address: string): boolean {
  // Without the zone of a link-local address (fe80::1%eth0).
  const plain = address.replace(/%.*$/, "");
  const family = isIP(plain) === 6 ? "ipv6" : "ipv4";
  return LOCAL.check(plain, family) || ownAddresses().check(plain, family);
}

/** Those of the machine's interfaces, which come and go: what listens on all of them is reached by each. */
function ownAddresses(): BlockList {
  const own = new BlockList();
  for (const { address, family } of Object.values(networkInterfaces()).flatMap((each) => each ?? [])) {
    own.addAddress(address, family === "IPv6" ? "ipv6" : "ipv4");
  }
  return own;
}

/** Throws EgressFault if a host is local, or has a local address among its addresses. One that is not known is let pass: it can't be reached. */
export async function checkHost(host: string): Promise<void> {
  const name = host.replace(/^\[|\]$/g, "");
  const addresses = isIP(name) ? [name] : (await resolve(name, { all: true }).catch(() => [])).map(addressOf);
  if (addresses.some(isLocalAddress)) throw blocked(name);
}

function addressOf({ address }: { address: string }): string {
  return address;
}

function blocked(host: string): EgressFault {
  return new EgressFault(
    `${host} is an address of the runner's own machine or link: its operator must allow such stores with --egress-local`,
  );
}

const inside = new AsyncLocalStorage<true>();

/** Does `work`, whose connections the policy blocks if they lead to such addresses. */
export function withNetworkPolicy<T>(work: () => Promise<T>): Promise<T> {
  watchSockets();
  return inside.run(true, work);
}

let watched = false;

/** Other connections of this process, such as those to the gateway, pass as ever. */
function watchSockets(): void {
  if (watched) return;
  watched = true;
  const { connect } = Socket.prototype;
  const watching = function (this: Socket, ...args: unknown[]): Socket {
    if (inside.getStore() === undefined) return Reflect.apply(connect, this, args);
    const options = optionsOf(args);
    const host = options?.host ?? "localhost";
    const isBlocked =
      options === undefined || options.path != null || (isIP(host) > 0 && isLocalAddress(host));
    if (isBlocked) return this.destroy(blocked(options?.path ?? host));
    options.lookup = watchedLookup(options.lookup ?? systemLookup);
    return Reflect.apply(connect, this, args);
  };
  Socket.prototype.connect = watching as typeof Socket.prototype.connect;
}

interface ConnectOptions {
  readonly host?: string;
  /** Of a socket that is a file. */
  readonly path?: string | null;
  lookup?: LookupFunction;
}

/** The options among the arguments of `connect`, which come as they are or in a list; undefined: a port or a path alone, which is local. */
function optionsOf([first]: readonly unknown[]): ConnectOptions | undefined {
  const options: unknown = Array.isArray(first) ? first[0] : first;
  return typeof options === "object" && options !== null ? options : undefined;
}

function watchedLookup(lookup: LookupFunction): LookupFunction {
  return (host, options, done) => {
    lookup(host, options, (error, address, family) => {
      const found = typeof address === "string" ? [address] : (address ?? []).map(addressOf);
      if (!error && found.some(isLocalAddress)) done(blocked(host), "", 0);
      else done(error, address, family);
    });
  };
}
