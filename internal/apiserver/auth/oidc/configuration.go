package oidc

import (
	"errors"
	"fmt"
	"maps"
	"os"
	"slices"

	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/serializer"
	"k8s.io/apiserver/pkg/apis/apiserver"
	"k8s.io/apiserver/pkg/apis/apiserver/install"
	"k8s.io/apiserver/pkg/apis/apiserver/validation"
	authenticationcel "k8s.io/apiserver/pkg/authentication/cel"
)

// Flags are upstream's --oidc-* flags: one issuer without a file.
type Flags struct {
	IssuerURL, ClientID, CAFile   string
	UsernameClaim, UsernamePrefix string
	GroupsClaim, GroupsPrefix     string
	SigningAlgs                   []string
	RequiredClaims                map[string]string
}

// Options say which issuers are trusted. The zero value trusts none.
type Options struct {
	File  string // AuthenticationConfiguration
	Flags Flags  // instead of File
	// Disallowed are issuers that a configuration may not name: the server's own.
	Disallowed []string
}

// readFile decodes a file, strictly.
func readFile(path string) (*apiserver.AuthenticationConfiguration, string, error) {
	raw, err := os.ReadFile(path)
	if err != nil {
		return nil, "", fmt.Errorf("authentication configuration: %w", err)
	}
	if len(raw) == 0 {
		return nil, "",
			fmt.Errorf("authentication configuration %s is empty: write an AuthenticationConfiguration of "+
				"apiserver.config.k8s.io/v1", path)
	}
	scheme := runtime.NewScheme()
	install.Install(scheme)
	obj, err := runtime.Decode(serializer.NewCodecFactory(scheme, serializer.EnableStrict).UniversalDecoder(), raw)
	if err != nil {
		return nil, "", fmt.Errorf("authentication configuration %s: %w", path, err)
	}
	c, ok := obj.(*apiserver.AuthenticationConfiguration)
	if !ok {
		return nil, "", fmt.Errorf("authentication configuration %s: expected AuthenticationConfiguration, got %T",
			path, obj)
	}
	return c, string(raw), nil
}

// configurationFromFlags is the configuration that the flags stand for; nil without an issuer.
func configurationFromFlags(f Flags) (*apiserver.AuthenticationConfiguration, error) {
	if f.IssuerURL == "" && f.ClientID == "" {
		return nil, nil
	}
	if f.IssuerURL == "" || f.ClientID == "" {
		return nil, errors.New("--oidc-issuer-url and --oidc-client-id must be specified together when any OIDC " +
			"flags are set")
	}
	j := apiserver.JWTAuthenticator{Issuer: apiserver.Issuer{URL: f.IssuerURL, Audiences: []string{f.ClientID}}}
	if f.CAFile != "" {
		pem, err := os.ReadFile(f.CAFile)
		if err != nil {
			return nil, fmt.Errorf("--oidc-ca-file: %w", err)
		}
		j.Issuer.CertificateAuthority = string(pem)
	}
	claim, prefix := f.UsernameClaim, f.UsernamePrefix
	if claim == "" {
		claim = "sub"
	}
	switch {
	case prefix == "-":
		prefix = ""
	case prefix == "" && claim != "email":
		prefix = f.IssuerURL + "#" // upstream's rule: names of one issuer cannot be taken for those of another
	}
	j.ClaimMappings.Username = apiserver.PrefixedClaimOrExpression{Claim: claim, Prefix: &prefix}
	if f.GroupsClaim != "" {
		j.ClaimMappings.Groups = apiserver.PrefixedClaimOrExpression{Claim: f.GroupsClaim, Prefix: &f.GroupsPrefix}
	}
	for _, name := range slices.Sorted(maps.Keys(f.RequiredClaims)) {
		j.ClaimValidationRules = append(j.ClaimValidationRules,
			apiserver.ClaimValidationRule{Claim: name, RequiredValue: f.RequiredClaims[name]})
	}
	return &apiserver.AuthenticationConfiguration{JWT: []apiserver.JWTAuthenticator{j}}, nil
}

func validate(c *apiserver.AuthenticationConfiguration, disallowed []string) error {
	return validation.ValidateAuthenticationConfiguration(authenticationcel.NewDefaultCompiler(), c,
		disallowed).ToAggregate()
}
