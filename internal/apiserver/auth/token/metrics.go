package token

import (
	"k8s.io/component-base/metrics"
	"k8s.io/component-base/metrics/legacyregistry"
)

// Uses of projected tokens and of tokens in Secrets, under upstream's names. They are the
// process's: several servers in it count together.
var (
	staleTokens = metrics.NewCounter(&metrics.CounterOpts{Subsystem: "serviceaccount", Name: "stale_tokens_total",
		Help: "Cumulative stale projected service account tokens used", StabilityLevel: metrics.BETA})
	validTokens = metrics.NewCounter(&metrics.CounterOpts{Subsystem: "serviceaccount", Name: "valid_tokens_total",
		Help: "Cumulative valid projected service account tokens used", StabilityLevel: metrics.BETA})
	legacyTokens = metrics.NewCounter(&metrics.CounterOpts{Subsystem: "serviceaccount", Name: "legacy_tokens_total",
		Help: "Cumulative legacy service account tokens used", StabilityLevel: metrics.BETA})
	manualTokens = metrics.NewCounter(&metrics.CounterOpts{Subsystem: "serviceaccount",
		Name: "legacy_manual_token_uses_total", Help: "Cumulative manually created legacy tokens used",
		StabilityLevel: metrics.ALPHA})
	generatedTokens = metrics.NewCounter(&metrics.CounterOpts{Subsystem: "serviceaccount",
		Name: "legacy_auto_token_uses_total", Help: "Cumulative auto-generated legacy tokens used",
		StabilityLevel: metrics.ALPHA})
	invalidTokens = metrics.NewCounter(&metrics.CounterOpts{Subsystem: "serviceaccount",
		Name: "invalid_legacy_auto_token_uses_total", Help: "Cumulative invalid auto-generated legacy tokens used",
		StabilityLevel: metrics.ALPHA})
)

func init() {
	legacyregistry.MustRegister(staleTokens, validTokens, legacyTokens, manualTokens, generatedTokens, invalidTokens)
}
