// Package table writes rows of one fixed schema, in the two forms that
// data sets are published in: JSON Lines and Parquet, along with the dataset card
// that tells a loader their types.
//
// A Schema is declared once; the JSON text, the Parquet columns and the features
// of the card are made from it, so that they can't disagree. Every row writes
// every column. The package knows nothing of rollouts and never infers a type
// from a value.
package table
