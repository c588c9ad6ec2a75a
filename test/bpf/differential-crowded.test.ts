import { differential } from './differential-suite.js'

differential('a crowded table', { answerPing: false, crowded: true })
