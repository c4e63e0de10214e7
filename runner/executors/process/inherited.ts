import { closeSync, readdirSync, readFileSync } from "node:fs";

const FIRST_BEYOND_STDIO = 3;
/** O_CLOEXEC as open(2) has it on Linux, on every processor that Node runs on. */
const CLOSE_ON_EXEC = 0o2000000;

/**
 * Closes the files that whoever started this process left open in it, so that no program which it starts has them: such
 * a file may be one that commands do not see by its path. Node opens its own with a mark that keeps them from other
 * programs, so what lacks the mark was inherited. Node sets the mark on inherited ones too, but only up to the first gap.
 */
export function closeInherited(): void {
  for (const name of readdirSync("/proc/self/fd")) {
    const descriptor = Number(name);
    if (descriptor < FIRST_BEYOND_STDIO || !isInheritable(descriptor)) continue;
    closeSync(descriptor);
  }
}

function isInheritable(descriptor: number): boolean {
  try {
    const info = readFileSync(`/proc/self/fdinfo/${descriptor}`, "utf8");
    const flags = /^flags:\s*([0-7]+)$/m.exec(info)?.[1];
    return flags !== undefined && (Number.parseInt(flags, 8) & CLOSE_ON_EXEC) === 0;
  } catch {
    // It is closed: the list of them was read through one.
    return false;
  }
}
