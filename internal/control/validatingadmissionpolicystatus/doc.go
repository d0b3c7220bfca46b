// Package validatingadmissionpolicystatus checks the types of ValidatingAdmissionPolicies'
// expressions against the schemas of the kinds that they match.
//
// In: the policies, schemas and kinds as the API server publishes them. Out: each policy's
// status.typeChecking, and the generation that it is about. The API server refuses what does not
// compile whatever the kind; this says what a kind does not have.
package validatingadmissionpolicystatus
