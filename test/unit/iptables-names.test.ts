import { expect, test } from 'vitest'
import { endpointChain, PORT_CHAIN, portChain, portText } from '../../src/dataplane/iptables/names.js'
import { probability } from '../../src/dataplane/iptables/rule.js'
import { nameHash } from '../../src/dataplane/rules/name-hash.js'
import { address } from './plan-kit.js'

test.each([
  ['default/kubernetes:https', 'tcp', 'NPX46M4PTMTKRN6Y'],
  ['kube-system/kube-dns:dns', 'udp', 'TCOU7JCQXEZGVUNU'],
  ['kube-system/kube-dns:dns-tcp', 'tcp', 'ERIFXISQEP7F7OF4'],
  ['kube-system/kube-dns:metrics', 'tcp', 'JD5MR3NA4I4DYORP'],
  ['ns1/svc1:p80', 'tcp', 'XPGD46QRK7WJZT7O'],
  ['default/nginx-service', 'tcp', 'V2OKYYMBY3REGZOG'],
  ['default/nginx-service:', 'tcp', 'GKN7Y2BSGW4NJTYL'],
  ['default/my-service:80-80', 'tcp', 'JLFZCDARX7J7XLB7'],
])('chains of %s %s end in %s', (text, protocol, hash) => {
  expect(nameHash(text + protocol, 16)).toBe(hash)
  expect(portChain('SVC', text, protocol)).toBe(`KUBE-SVC-${hash}`)
})

test.each([
  ['ns1/svc1:p80', '10.0.1.1', 80, 'SNQ3ZNILQDEJNDQO'],
  ['default/nginx-service', '10.244.1.2', 80, 'MNKVGFJKVZSSJG7K'],
  ['default/nginx-service', '10.244.0.27', 80, 'POZMZY2HDLRATSJV'],
  ['default/my-service:80-80', '10.244.0.4', 80, 'GGSVNIZKCFPBLJPS'],
])('the chain of an endpoint of %s at %s', (text, ip, port, hash) => {
  expect(endpointChain(text, 'tcp', address(ip), port)).toBe(`KUBE-SEP-${hash}`)
})

test('an IPv6 endpoint counts with brackets', () => {
  expect(endpointChain('a/b', 'tcp', address('2001:db8::1'), 80)).toBe(
    `KUBE-SEP-${nameHash('a/btcp[2001:db8::1]:80', 16)}`,
  )
})

test('an unnamed port has a colon in old versions', () => {
  const port = { namespace: 'default', name: 'web', portName: '' }
  expect(portText(port, false)).toBe('default/web')
  expect(portText(port, true)).toBe('default/web:')
  expect(portText({ ...port, portName: 'http' }, false)).toBe('default/web:http')
})

test('chains of a Service port are told from the common ones', () => {
  expect('KUBE-SVC-V2OKYYMBY3REGZOG').toMatch(PORT_CHAIN)
  expect('KUBE-XLB-V2OKYYMBY3REGZOG').toMatch(PORT_CHAIN)
  expect('KUBE-SERVICES').not.toMatch(PORT_CHAIN)
  expect('KUBE-SVC-V2OKYYMBY3REGZO').not.toMatch(PORT_CHAIN)
  expect('CNI-SVC-V2OKYYMBY3REGZOG').not.toMatch(PORT_CHAIN)
})

test.each([
  [2, 10, '0.50000000000'],
  [3, 10, '0.33333333349'],
  [5, 10, '0.20000000019'],
  [6, 10, '0.16666666651'],
  [7, 10, '0.14285714272'],
  [9, 10, '0.11111111101'],
  [10, 10, '0.10000000009'],
  [3, 5, '0.33332999982'],
  [6, 5, '0.16667000018'],
  [7, 5, '0.14286000002'],
])('the probability of one of %i, written with %i decimals, is listed as %s', (left, digits, listed) => {
  expect(probability(left, digits)).toBe(`-m statistic --mode random --probability ${listed}`)
})
