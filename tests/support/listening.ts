/** What a process listens on, as the kernel has it (Linux). */

const TCP_LISTEN = "0A";
/** An unconnected UDP socket; UDP has no listening state. */
const UDP_OPEN = "07";
/** __SO_ACCEPTCON in the flags column of /proc/net/unix. */
const UNIX_ACCEPTS = 0x10000;

/**
 * Every endpoint of the process that takes connections or datagrams, sorted: "tcp 127.0.0.1:1883",
 * "tcp6 [::]:1883" in the kernel's own hexadecimal groups, "udp ...", "unix /path", "unix @abstract".
 */
export function listening(pid: number): string[] {
  const own = socketInodes(pid);
  const found: string[] = [];
  for (const kind of ["tcp", "tcp6", "udp", "udp6"]) {
    const wanted = kind.startsWith("tcp") ? TCP_LISTEN : UDP_OPEN;
    for (const columns of table(pid, kind)) {
      const [, local, , state] = columns;
      if (state === wanted && own.has(columns[9])) found.push(`${kind} ${address(local)}`);
    }
  }
  for (const columns of table(pid, "unix")) {
    const accepts = (Number.parseInt(columns[3], 16) & UNIX_ACCEPTS) !== 0;
    if (accepts && own.has(columns[6])) found.push(`unix ${columns[7] ?? "(unnamed)"}`);
  }
  return found.sort();
}

/** How many descriptors the process has open. */
export function openDescriptors(pid: number): number {
  return [...Deno.readDirSync(`/proc/${pid}/fd`)].length;
}

function socketInodes(pid: number): Set<string> {
  const inodes = new Set<string>();
  for (const entry of Deno.readDirSync(`/proc/${pid}/fd`)) {
    let target: string;
    try {
      target = Deno.readLinkSync(`/proc/${pid}/fd/${entry.name}`);
    } catch (error) {
      if (error instanceof Deno.errors.NotFound) continue; // Closed since the directory was read.
      throw error;
    }
    const inode = /^socket:\[(\d+)\]$/.exec(target)?.[1];
    if (inode !== undefined) inodes.add(inode);
  }
  return inodes;
}

function table(pid: number, kind: string): string[][] {
  const text = Deno.readTextFileSync(`/proc/${pid}/net/${kind}`);
  return text.trim().split("\n").slice(1).map((line) => line.trim().split(/\s+/));
}

/** "0100007F:075B" is 127.0.0.1:1883: the address in host order, the port not. */
function address(local: string): string {
  const [host, port] = local.split(":");
  if (host.length > 8) return `[${host}]:${Number.parseInt(port, 16)}`;
  const bytes = host.match(/../g)!.map((byte) => Number.parseInt(byte, 16)).reverse();
  return `${bytes.join(".")}:${Number.parseInt(port, 16)}`;
}
