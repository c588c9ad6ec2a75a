// Sums up the JSON reports of the tiers: failed tests, skips with their reasons, one last line.
import { existsSync, readFileSync } from 'node:fs'
import { join } from 'node:path'

const [dir, ...tiers] = process.argv.slice(2)
const sum = { passed: 0, failed: 0, skipped: 0 }
for (const tier of tiers) {
  const file = join(dir, `${tier}.json`)
  if (!existsSync(file)) {
    console.log(`FAILED ${tier}: the tier did not report`)
    sum.failed++
    continue
  }
  const report = JSON.parse(readFileSync(file, 'utf8'))
  for (const suite of report.testResults) {
    // A file that cannot be loaded, or whose set-up fails, has no test to count.
    if (suite.status === 'failed' && suite.assertionResults.every(each => each.status !== 'failed')) {
      console.log(`FAILED ${tier}: ${suite.name}: ${suite.message.split('\n')[0]}`)
      sum.failed++
    }
    for (const test of suite.assertionResults) {
      if (test.status === 'passed') sum.passed++
      else if (test.status === 'failed') {
        console.log(`FAILED ${tier}: ${test.fullName}`)
        sum.failed++
      } else {
        console.log(`SKIPPED ${tier}: ${test.fullName}`)
        sum.skipped++
      }
    }
  }
}
console.log(`${sum.passed} passed, ${sum.failed} failed, ${sum.skipped} skipped`)
process.exitCode = sum.failed > 0 || sum.passed === 0 ? 1 : 0
