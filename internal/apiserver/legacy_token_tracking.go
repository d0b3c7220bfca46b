package apiserver

import (
	"context"
	"fmt"
	"maps"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

const (
	// tokenTrackingConfigMap is the ConfigMap in kube-system with the day since when the use of
	// Secret-based tokens is tracked: upstream's name.
	tokenTrackingConfigMap = "kube-apiserver-legacy-service-account-token-tracking"
	// tokenTrackingSinceKey is its key; the value is a day in UTC.
	tokenTrackingSinceKey = "since"
)

// ensureTokenTracking creates the ConfigMap, or sets today's date if it has none that can be
// parsed.
func (b *builder) ensureTokenTracking(ctx context.Context) error {
	client := b.client.CoreV1().ConfigMaps(metav1.NamespaceSystem)
	have, err := client.Get(ctx, tokenTrackingConfigMap, metav1.GetOptions{})
	missing := apierrors.IsNotFound(err)
	if err == nil || missing {
		data, wrong := tokenTrackingData(have.Data, time.Now())
		switch {
		case !wrong:
			return nil
		case missing:
			m := &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Name: tokenTrackingConfigMap}, Data: data}
			_, err = client.Create(ctx, m, metav1.CreateOptions{})
		default:
			have.Data = data
			_, err = client.Update(ctx, have, metav1.UpdateOptions{})
		}
	}
	if err != nil && !apierrors.IsAlreadyExists(err) && !apierrors.IsConflict(err) {
		return fmt.Errorf("ConfigMap %s/%s: %w", metav1.NamespaceSystem, tokenTrackingConfigMap, err)
	}
	return nil
}

// tokenTrackingData returns the data that the ConfigMap should have, and whether it differs from
// have: a date that can be parsed stays.
func tokenTrackingData(have map[string]string, now time.Time) (map[string]string, bool) {
	if _, err := time.Parse(time.DateOnly, have[tokenTrackingSinceKey]); err == nil {
		return have, false
	}
	out := maps.Clone(have)
	if out == nil {
		out = map[string]string{}
	}
	out[tokenTrackingSinceKey] = now.UTC().Format(time.DateOnly)
	return out, true
}
