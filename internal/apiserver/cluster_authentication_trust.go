package apiserver

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"os"
	"slices"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	genericapiserver "k8s.io/apiserver/pkg/server"
	"k8s.io/apiserver/pkg/server/dynamiccertificates"
	"k8s.io/klog/v2"

	"github.com/gantry-project/gantry/internal/apiserver/certreload"
)

// authenticationConfigMap is the ConfigMap in kube-system from which schedulers and aggregated API
// servers read which client certificates this server trusts and which headers of front proxies it
// accepts.
const authenticationConfigMap = "extension-apiserver-authentication"

// trustResyncPeriod is how often the ConfigMap is checked, in case it was removed or changed:
// upstream's period.
const trustResyncPeriod = time.Minute

// clusterAuthenticationInfo returns the ConfigMap's data from the present contents of the files.
func (b *builder) clusterAuthenticationInfo() (map[string]string, error) {
	out := map[string]string{}
	if path := b.config.Files.ClientCA; path != "" {
		raw, err := os.ReadFile(path)
		if err != nil {
			return nil, &BadFile{What: "client certificate authority", Path: path, Err: err}
		}
		out["client-ca-file"] = string(raw)
	}
	h := b.access.RequestHeader
	if h == nil {
		return out, nil
	}
	out["requestheader-client-ca-file"] = string(h.CAContentProvider.CurrentCABundleContent())
	for key, list := range map[string][]string{
		"requestheader-username-headers": h.UsernameHeaders.Value(), "requestheader-uid-headers": h.UIDHeaders.Value(),
		"requestheader-group-headers":        h.GroupHeaders.Value(),
		"requestheader-extra-headers-prefix": h.ExtraHeaderPrefixes.Value(),
		"requestheader-allowed-names":        h.AllowedClientNames.Value(),
	} {
		raw, err := json.Marshal(list)
		if err != nil {
			return nil, err
		}
		out[key] = string(raw)
	}
	return out, nil
}

// ensureClusterAuthenticationTrust creates or updates the ConfigMap. Keys of others stay.
func (b *builder) ensureClusterAuthenticationTrust(ctx context.Context) error {
	want, err := b.clusterAuthenticationInfo()
	if err != nil || len(want) == 0 {
		return err
	}
	client := b.client.CoreV1().ConfigMaps(metav1.NamespaceSystem)
	have, err := client.Get(ctx, authenticationConfigMap, metav1.GetOptions{})
	switch {
	case apierrors.IsNotFound(err):
		_, err = client.Create(ctx,
			&corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Name: authenticationConfigMap,
				Namespace: metav1.NamespaceSystem}, Data: want}, metav1.CreateOptions{})
	case err == nil && slices.ContainsFunc(slices.Collect(maps.Keys(want)),
		func(k string) bool { return have.Data[k] != want[k] }):
		if have.Data == nil {
			have.Data = map[string]string{}
		}
		maps.Copy(have.Data, want)
		_, err = client.Update(ctx, have, metav1.UpdateOptions{})
	}
	if err != nil && !apierrors.IsAlreadyExists(err) {
		return fmt.Errorf("configmap %s/%s: %w", metav1.NamespaceSystem, authenticationConfigMap, err)
	}
	return nil
}

// changeSignal is a channel of capacity one that receives when something changed; changes that come
// before it is read are one.
type changeSignal chan struct{}

// Enqueue implements dynamiccertificates.Listener; it never blocks.
func (c changeSignal) Enqueue() {
	select {
	case c <- struct{}{}:
	default:
	}
}

// syncClusterAuthenticationTrust updates the ConfigMap when a file of authorities changes and every
// trustResyncPeriod, until ctx ends.
func (b *builder) syncClusterAuthenticationTrust(ctx context.Context) {
	changed := make(changeSignal, 1)
	if path := b.config.Files.ClientCA; path != "" {
		if ca, err := certreload.NewCAContent("client-ca-published", path); err == nil {
			ca.AddListener(changed)
			go ca.Run(ctx, 1)
		}
	}
	if h := b.access.RequestHeader; h != nil {
		if ca, ok := h.CAContentProvider.(dynamiccertificates.Notifier); ok {
			ca.AddListener(changed)
		}
	}
	tick := time.NewTicker(trustResyncPeriod)
	defer tick.Stop()
	for {
		select {
		case <-ctx.Done():
			return
		case <-changed:
		case <-tick.C:
		}
		if err := b.ensureClusterAuthenticationTrust(ctx); err != nil && !errors.Is(err, context.Canceled) {
			klog.FromContext(ctx).Error(err,
				"The certificate authorities could not be published; the next try is in a minute")
		}
	}
}

// addClusterAuthenticationTrust adds the hook that keeps the ConfigMap up to date.
// createBootstrapObjects has created it.
func (b *builder) addClusterAuthenticationTrust() error {
	return b.generic.AddPostStartHook("gantry-published-authorities",
		func(ctx genericapiserver.PostStartHookContext) error {
			go b.syncClusterAuthenticationTrust(ctx)
			return nil
		})
}
