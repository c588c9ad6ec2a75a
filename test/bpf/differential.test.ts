import { differential } from './differential-suite.js'

differential('a table with room', { answerPing: true, crowded: false })
