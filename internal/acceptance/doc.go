// Package acceptance holds the tests that use the assembled binary as people do, against
// a model server on the loopback address: cases from daily use, and faults that the whole
// product must survive. It has no code of its own.
package acceptance
