//! Why a chart can't be drawn.

/// Why a chart can't be drawn or encoded.
#[derive(Debug, thiserror::Error)]
pub enum ChartError {
    /// Plotters failed.
    #[error("can't draw the chart")]
    Draw(#[source] Box<dyn std::error::Error + Send + Sync>),
    /// The PNG can't be encoded.
    #[error("can't encode the chart")]
    Encode(#[from] png::EncodingError),
    /// The bundled font can't be read.
    #[error("can't read the font of the charts")]
    Font,
}

/// Wraps an error of plotters.
pub(super) fn drawing<E: std::error::Error + Send + Sync + 'static>(error: E) -> ChartError {
    ChartError::Draw(Box::new(error))
}
