package token

import (
	"k8s.io/component-base/metrics"
	"k8s.io/component-base/metrics/legacyregistry"
)

// Uses of projected tokens, under upstream's names. They are the process's: several servers in it
// count together.
var (
	staleTokens = metrics.NewCounter(&metrics.CounterOpts{Subsystem: "serviceaccount", Name: "stale_tokens_total",
		Help: "Cumulative stale projected service account tokens used", StabilityLevel: metrics.BETA})
	validTokens = metrics.NewCounter(&metrics.CounterOpts{Subsystem: "serviceaccount", Name: "valid_tokens_total",
		Help: "Cumulative valid projected service account tokens used", StabilityLevel: metrics.BETA})
)

func init() { legacyregistry.MustRegister(staleTokens, validTokens) }
