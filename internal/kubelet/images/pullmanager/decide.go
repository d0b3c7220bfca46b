package pullmanager

import (
	"crypto/sha256"
	"encoding/json"
	"fmt"
	"slices"
	"strings"

	"github.com/distribution/reference"
	kubelet "k8s.io/kubelet/config/v1beta1"

	"github.com/gantry-project/gantry/internal/kubelet/images"
)

// Policy says for which images a Pod has to prove its right.
type Policy struct {
	Verify kubelet.ImagePullCredentialsVerificationPolicy // empty is NeverVerify
	Allow  []string                                       // preloadedImagesVerificationAllowlist
}

// RequiresVerification tells whether the right to an image has to be proven. ours: the kubelet
// pulled it.
func (p Policy) RequiresVerification(name string, pulledByKubelet bool) bool {
	switch p.Verify {
	case kubelet.NeverVerifyPreloadedImages:
		return pulledByKubelet
	case kubelet.NeverVerifyAllowlistedImages:
		return pulledByKubelet || !allowed(p.Allow, withoutTag(name))
	case kubelet.AlwaysVerify:
		return true
	}
	return false
}

// Check tells what is wrong with the allowlist's patterns.
func (p Policy) Check() error {
	for _, pattern := range p.Allow {
		plain, wild := strings.CutSuffix(pattern, "/*")
		switch {
		case pattern == "":
			return fmt.Errorf(
				"invalid configuration: invalid image pattern in `preloadedImagesVerificationAllowlist`: the "+
					"supplied pattern is empty: %q", pattern)
		case strings.Contains(plain, "*"):
			return fmt.Errorf(
				"invalid configuration: invalid image pattern in `preloadedImagesVerificationAllowlist`: wildcards "+
					"are only allowed as the final path segment \"/*\": %q", pattern)
		case !wild && withoutTag(plain) != plain && hasTag(plain):
			return fmt.Errorf(
				"invalid configuration: invalid image pattern in `preloadedImagesVerificationAllowlist`: image "+
					"pattern must not have a tag or digest: %q", pattern)
		}
	}
	return nil
}

func hasTag(name string) bool {
	named, err := reference.ParseNormalizedNamed(name)
	return err == nil && !reference.IsNameOnly(named)
}

func allowed(patterns []string, name string) bool {
	return slices.ContainsFunc(patterns, func(p string) bool {
		if prefix, ok := strings.CutSuffix(p, "/*"); ok {
			return strings.HasPrefix(name, hostOf(prefix)+"/")
		}
		return withoutTag(p) == name
	})
}

// withoutTag is a name with registry and path, without tag and digest.
func withoutTag(name string) string {
	named, err := reference.ParseNormalizedNamed(name)
	if err != nil {
		return name
	}
	return named.Name()
}

// hostOf completes the beginning of a name, which may be a registry alone.
func hostOf(prefix string) string {
	if first, _, _ := strings.Cut(prefix, "/"); strings.ContainsAny(first, ".:") || first == "localhost" {
		return prefix
	}
	return withoutTag(prefix)
}

// AllowsUse tells whether a record lets a Pod with these credentials use the image under this name.
func AllowsUse(r *kubelet.ImagePulledRecord, name string, has []images.Credential) bool {
	if r == nil {
		return false
	}
	known, ok := r.CredentialMapping[withoutTag(name)]
	if !ok {
		return false
	}
	if known.NodePodsAccessible {
		return true
	}
	return slices.ContainsFunc(has, func(c images.Credential) bool {
		switch {
		case c.Origin.Secret != nil:
			hash := Hash(c)
			return slices.ContainsFunc(known.KubernetesSecrets, func(s kubelet.ImagePullSecret) bool {
				// The same secret, changed or not; or another one with the same content.
				return s.CredentialHash == hash ||
					s.UID == c.Origin.Secret.UID && s.Namespace == c.Origin.Secret.Namespace &&
						s.Name == c.Origin.Secret.Name
			})
		case c.Origin.ServiceAccount != nil:
			return slices.Contains(known.KubernetesServiceAccounts, *c.Origin.ServiceAccount)
		}
		return false
	})
}

// Hash tells credentials apart without telling them.
func Hash(c images.Credential) string {
	raw, err := json.Marshal(map[string]string{
		"username": c.Auth.GetUsername(), "password": c.Auth.GetPassword(), "auth": c.Auth.GetAuth(),
		"identityToken": c.Auth.GetIdentityToken(), "registryToken": c.Auth.GetRegistryToken(),
	})
	if err != nil {
		return "" // strings marshal
	}
	return fmt.Sprintf("%x", sha256.Sum256(raw))
}

// AddCredentials adds what an image was pulled with to its record; without credentials, or with the
// node's own, every Pod may use it.
func AddCredentials(r kubelet.ImagePulledRecord, name string, used *images.Credential) kubelet.ImagePulledRecord {
	out := *r.DeepCopy()
	if out.CredentialMapping == nil {
		out.CredentialMapping = map[string]kubelet.ImagePullCredentials{}
	}
	have := out.CredentialMapping[withoutTag(name)]
	switch {
	case have.NodePodsAccessible:
	case used == nil || used.Origin.NodeWide():
		have = kubelet.ImagePullCredentials{NodePodsAccessible: true}
	case used.Origin.Secret != nil:
		s := *used.Origin.Secret
		s.CredentialHash = Hash(*used)
		have.KubernetesSecrets = slices.DeleteFunc(have.KubernetesSecrets, func(o kubelet.ImagePullSecret) bool {
			return o.UID == s.UID && o.Namespace == s.Namespace && o.Name == s.Name
		})
		have.KubernetesSecrets = append(have.KubernetesSecrets, s)
	case !slices.Contains(have.KubernetesServiceAccounts, *used.Origin.ServiceAccount):
		have.KubernetesServiceAccounts = append(have.KubernetesServiceAccounts, *used.Origin.ServiceAccount)
	}
	out.CredentialMapping[withoutTag(name)] = have
	return out
}
