/** What a command ends with. docs/contract.md has the same table for people and their scripts. */
export const EXIT = {
  done: 0,
  /** Refused, or could not be done, for a reason that has no code of its own. */
  failed: 1,
  usage: 2,
  /** A job failed, or the command of a datum. */
  jobFailed: 3,
  /** A datum that was run again made something else. */
  differs: 4,
  jobStopped: 5,
  timeIsUp: 6,
  /** What was named is not there. */
  absent: 7,
  /** No gateway answers, or it can't for the moment. */
  unreachable: 8,
  /** A disk has no room: the gateway's, or that of this machine. */
  diskFull: 9,
} as const;

/** Codes of failures that mean that something is not there, whoever noticed: the gateway, this program, the file system. */
const ABSENT = /^(NoSuch\w+|NotFound|NotKept|Http404|ENOENT)$/;
/** The same for a gateway that can't be reached. What fails on the way to it says so by itself. */
const UNREACHABLE = /^(Unavailable|ServiceUnavailable|SlowDown|Http50[234])$/;

/** The same for a full disk. */
const DISK_FULL = /^(StorageFull|ENOSPC|EDQUOT)$/;

/** The exit code of a failure, by its code. `NoSuchContent`: the upload lacks bytes, which is a fault of this program. */
export function exitCodeOf(code: string): number {
  if (code === "Usage") return EXIT.usage;
  if (code === "NoSuchContent") return EXIT.failed;
  if (ABSENT.test(code)) return EXIT.absent;
  if (DISK_FULL.test(code)) return EXIT.diskFull;
  return UNREACHABLE.test(code) ? EXIT.unreachable : EXIT.failed;
}
