import { Store } from "../../objects/store.ts";

/** What a job was made to do again. */
export interface Retry {
  /** The job that was asked for. */
  readonly asked: string;
  /** Whether every datum runs again; else only what failed. */
  readonly every: boolean;
}

/** The last retry: whoever asks twice for the same, since an answer was lost, gets the job that was made. */
export class RetryStore extends Store {
  set({ asked, every }: Retry, made: number): void {
    this.sql.run`
      INSERT OR REPLACE INTO last_retry (one, asked, every, made) VALUES (1, ${asked}, ${every ? 1 : 0}, ${made})`;
  }

  /** The number of the job that was made, if the last retry asked for just this. */
  made({ asked, every }: Retry): number | undefined {
    return this.sql.first<{ made: number }>`
      SELECT made FROM last_retry WHERE asked = ${asked} AND every = ${every ? 1 : 0}`?.made;
  }
}
