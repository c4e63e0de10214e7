import { z } from "zod";

/** How long a session lasts, in milliseconds. It ends before that with its key. */
export const SESSION_MS = 12 * 60 * 60 * 1000;
/** Most sessions of one key: the next one takes the place of the oldest. */
export const MAX_SESSIONS = 20;

/** A session of the console: a key that acts as the one that it was made with, for some hours. */
export const Session = z.object({
  id: z.string(),
  /** Milliseconds since 1970. */
  createdAt: z.int(),
  /** From when on it is refused; milliseconds since 1970. */
  expiresAt: z.int(),
});
export type Session = z.infer<typeof Session>;

/** `POST /api/v1/console/sessions`: the only answer that has its secret. */
export const SessionCreated = z.object({
  ...Session.shape,
  secret: z.string(),
  /** The id of the key as which it acts. */
  key: z.string(),
  /** What that key is for, as its maker said; empty: nothing was said. */
  description: z.string(),
});
export type SessionCreated = z.infer<typeof SessionCreated>;

/** `GET /api/v1/console/sessions`: those of the caller's key, newest first. */
export const SessionList = z.object({ sessions: z.array(Session) });
export type SessionList = z.infer<typeof SessionList>;
