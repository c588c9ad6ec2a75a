import { WaggleError } from '../base/errors.js'

/** The agent cannot start or go on. */
export class DaemonError extends WaggleError {}
