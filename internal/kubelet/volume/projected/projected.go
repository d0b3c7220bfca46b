// Package projected makes projected volumes: ConfigMaps, Secrets, downward API items,
// service-account tokens, authorities and certificates in one directory.
//
// In: objects from the cache, tokens from the API server. Out: files in memory that follow their
// sources; Mounted.RefreshAt is when a token has to be renewed.
package projected

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	v1 "k8s.io/api/core/v1"
	utilerrors "k8s.io/apimachinery/pkg/util/errors"

	"github.com/gantry-project/gantry/internal/kubelet/volume"
	"github.com/gantry-project/gantry/internal/kubelet/volume/atomicwriter"
	"github.com/gantry-project/gantry/internal/kubelet/volume/configmap"
	"github.com/gantry-project/gantry/internal/kubelet/volume/downwardapi"
	"github.com/gantry-project/gantry/internal/kubelet/volume/secret"
	"github.com/gantry-project/gantry/internal/kubelet/volume/volumedir"
)

// Plugin is projected. Make it with New.
type Plugin struct {
	mounts  volume.Mounter
	objects volume.Objects
	tokens  *tokenCache
	bundles volume.Bundles
	certs   volume.Certificates
}

// New returns the type. Without more, projections of ClusterTrustBundles and of certificates are
// refused.
func New(m volume.Mounter, o volume.Objects, t volume.Tokens) Plugin {
	return Plugin{mounts: m, objects: o, tokens: &tokenCache{api: t, tokens: map[tokenKey]cachedToken{}}}
}

// WithSources returns the type with bundles and certificates.
func (t Plugin) WithSources(b volume.Bundles, c volume.Certificates) Plugin {
	t.bundles, t.certs = b, c
	return t
}

// Name is the field of v1.VolumeSource.
func (Plugin) Name() string { return "projected" }

// Dir is the plugin's directory.
func (Plugin) Dir() string { return "kubernetes.io~projected" }

// RequiresRemount is true.
func (Plugin) RequiresRemount(volume.Spec) bool { return true }

// SetUp writes the files. Sources are read in order, so a later one wins a path.
func (t Plugin) SetUp(ctx context.Context, a volume.MounterArgs) (volume.Mounted, error) {
	out := volume.Mounted{Path: a.Dir, ReadOnly: true, Size: volume.SizeOfFiles}
	p := volume.Payload{}
	var bad []error
	for i := range a.Spec.Volume.Projected.Sources {
		files, refreshAt, err := t.source(ctx, a, &a.Spec.Volume.Projected.Sources[i])
		if err != nil {
			bad = append(bad, err)
			continue
		}
		maps.Copy(p, files)
		if !refreshAt.IsZero() && (out.RefreshAt.IsZero() || refreshAt.Before(out.RefreshAt)) {
			out.RefreshAt = refreshAt
		}
	}
	if err := utilerrors.NewAggregate(bad); err != nil {
		return volume.Mounted{}, err
	}
	return out, atomicwriter.WriteVolume(t.mounts, a, true, p)
}

// TearDown removes the directory and forgets its tokens.
func (t Plugin) TearDown(_ context.Context, a volume.UnmounterArgs) error {
	t.tokens.forget(a.Dir)
	return volumedir.Remove(t.mounts, a.Dir)
}

func (t Plugin) source(ctx context.Context, a volume.MounterArgs,
	s *v1.VolumeProjection) (volume.Payload, time.Time, error) {
	mode := v1.ProjectedVolumeSourceDefaultMode
	if a.Spec.Volume.Projected.DefaultMode != nil {
		mode = *a.Spec.Volume.Projected.DefaultMode
	}
	switch {
	case s.ConfigMap != nil:
		c := s.ConfigMap
		p, err := configmap.Read(ctx, t.objects, a.Pod.Namespace,
			volume.Source{Name: c.Name, Items: c.Items, Mode: mode, Optional: c.Optional != nil && *c.Optional})
		return p, time.Time{}, err
	case s.Secret != nil:
		c := s.Secret
		p, err := secret.Read(ctx, t.objects, a.Pod.Namespace, volume.Source{Name: c.Name, Items: c.Items, Mode: mode,
			Optional: c.Optional != nil && *c.Optional})
		return p, time.Time{}, err
	case s.DownwardAPI != nil:
		p, err := downwardapi.Read(a.Pod, a.Node.Allocatable, s.DownwardAPI.Items, mode)
		return p, time.Time{}, err
	case s.ServiceAccountToken != nil:
		return t.token(ctx, a, s.ServiceAccountToken, mode)
	case s.ClusterTrustBundle != nil:
		p, err := t.trustAnchors(ctx, a, s.ClusterTrustBundle, mode)
		return p, time.Time{}, err
	case s.PodCertificate != nil:
		return t.certificate(ctx, a, s.PodCertificate, mode)
	}
	return nil, time.Time{}, fmt.Errorf("projected volume %q has a source that names nothing", a.Spec.Volume.Name)
}

// certificate is the files of a key and its chain (KEP-4317).
func (t Plugin) certificate(ctx context.Context, a volume.MounterArgs, s *v1.PodCertificateProjection,
	mode int32) (volume.Payload, time.Time, error) {
	if t.certs == nil {
		return nil, time.Time{}, errors.New("projected source podCertificate is not supported by this node")
	}
	// Paths of a volume are its sources' own.
	c, err := t.certs.Credential(ctx, a.Pod,
		strings.Join([]string{a.Spec.Volume.Name, s.CredentialBundlePath, s.KeyPath, s.CertificateChainPath}, "|"), s)
	if err != nil {
		return nil, time.Time{}, err
	}
	p := volume.Payload{}
	for path, data := range map[string][]byte{s.CredentialBundlePath: slices.Concat(c.Key, c.Chain), s.KeyPath: c.Key,
		s.CertificateChainPath: c.Chain} {
		if path != "" {
			p[path] = fileForPod(a, data, mode)
		}
	}
	return p, c.RefreshAt, nil
}

// fileForPod is a file that only the Pod's user may read where the Pod has one.
func fileForPod(a volume.MounterArgs, data []byte, mode int32) volume.File {
	f := volume.File{Data: data, Mode: mode, User: volume.TokenOwner(a.Pod)}
	if f.User != nil || a.FSGroup != nil {
		f.Mode = 0o600
	}
	return f
}

// trustAnchors is a file with the chosen authorities (KEP-3257).
func (t Plugin) trustAnchors(ctx context.Context, a volume.MounterArgs, s *v1.ClusterTrustBundleProjection,
	mode int32) (volume.Payload, error) {
	switch {
	case t.bundles == nil:
		return nil, errors.New("projected source clusterTrustBundle is not supported by this node")
	case s.Name == nil && s.SignerName == nil:
		return nil, errors.New("ClusterTrustBundle projection requires either name or signerName to be set")
	}
	text, err := t.bundles.TrustAnchors(ctx, a.Pod.UID, s)
	if err != nil {
		return nil, err
	}
	return volume.Payload{s.Path: fileForPod(a, text, mode)}, nil
}

func (t Plugin) token(ctx context.Context, a volume.MounterArgs, s *v1.ServiceAccountTokenProjection,
	mode int32) (volume.Payload, time.Time, error) {
	text, refreshAt, err := t.tokens.get(ctx, a, s)
	if err != nil {
		return nil, time.Time{}, fmt.Errorf("failed to fetch token: %w", err)
	}
	return volume.Payload{s.Path: fileForPod(a, []byte(text), mode)}, refreshAt, nil
}
